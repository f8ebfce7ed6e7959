// Texts of `--help`.

import { helpText } from '../config/describe.ts';

/** What `headrace --help` prints. */
const GENERAL_HELP: string = `headrace: an ingress for hosted generative models

Usage
  headrace demo [--port N]              a gateway, four simulated model hosts and a key, without any set-up
  headrace serve --config FILE          the gateway; prints one ready line once the public port answers
  headrace check --config FILE          reads the configuration and explains what would run, or every mistake
  headrace host --model NAME --port N   a simulated model host, for tests and benchmarks
  headrace search-worker --engine KIND  one search engine on a port of its own, for gateways to call
  headrace fetch URL                    a page as clean text
  headrace COMMAND --help               more about a command
  headrace --version

Start with
  headrace demo
`;

const SERVE = `headrace serve --config FILE [--SETTING VALUE ...]

Runs the gateway. Prints to standard output, once the public port answers:
  headrace listening on http://HOST:PORT
  admin on http://HOST:PORT
Logs go to standard error, one JSON object a line.

A changed file or SIGHUP reloads the configuration without dropping a stream; a broken file keeps the running one and
says why. SIGTERM or SIGINT stops accepting, lets requests in flight finish within timeouts.drain and exits 0; a second
signal exits at once. Exit code 1: the configuration is wrong, the port is taken, or the gateway could not go on.

`;

const CHECK = `headrace check --config FILE [--SETTING VALUE ...]

Reads the configuration as \`serve\` would and explains what would run: addresses, models and their servers, what differs
from the defaults, and what looks unwise. Every mistake is reported at once, by path. Exit code 0: fine, 1: mistakes.

`;

const DEMO = `headrace demo [--port N] [--admin-port N]

Runs a gateway on port 8080 in front of two simulated hosts for each of two models, with a demo key, and prints lines to
paste. Nothing leaves this machine. Ctrl-C ends it.

  --port N         public port, default 8080; 0 picks a free one
  --admin-port N   port of metrics and status, default 9090
`;

const HOST = `headrace host --model NAME --port N [--engine simulated] [flags]
headrace host --fleet FILE [flags]

Serves a simulated model in four dialects (completions, chat completions, responses, messages) and over the llama-style
API (/completion, /infill, /tokenize, /detokenize, /props, /slots), streaming and not. The engine works in steps, as
real ones do: requests queue, share steps, keep prefixes in a cache and use up memory.

  --model NAME         the model; several separated by commas
  --port N             default 9001; 0 picks a free one
  --listen HOST:PORT   instead of --port, to serve other interfaces than loopback
  --engine simulated   the only engine of this version
  --name NAME          the header x-host of every answer
  --profile NAME       8b-h100 (default), 70b-8xh100, small-box or even (50 tokens a second for every stream)
  --slots N            slots with memory of their own, as llama.cpp's server has; default 32 of 8b-h100
  --context N          most tokens of a sequence
  --speed N            times faster than real, default 1
  --seed N             of the model; hosts with the same seed speak alike
  --tokens N           most tokens of an answer when the request names no maximum
  --config FILE        asks for the keys of the section \`keys\` of this file
  --control true       serves POST /sim/faults
  --fleet FILE         many hosts in one process, YAML or JSON:
                         defaults: { models: [a], profile: 8b-h100 }
                         hosts: [{ name: fast, count: 3, port: 9001 }, { name: slow, profile: small-box, port: 9010 }]
                       members: models, count, name, port, profile, slots, context, speed, seed, loading, faults

A fixed pace instead of the engine, words instead of a language model:
  --ttft MS            time to the first token, default 30
  --itl MS             time between two tokens, default 10; 0 is as fast as the socket takes it

Faults by request header, and what really happened to a request, for example
  curl -H 'x-headrace-fault: reset-after=3' ...
  curl -H 'x-headrace-truth: 1' ...
`;

const SEARCH_WORKER = `headrace search-worker --engine KIND [--port N] [flags]

Serves one search engine to gateways that name it as { kind: worker, url: http://HOST:PORT }. Prints to standard output,
once the port answers:
  search worker listening on http://HOST:PORT

  --engine KIND        kind of the engine, as in the section search.engines of a configuration
  --port N             default 9101; 0 picks a free one
  --listen HOST:PORT   instead of --port, to serve other interfaces than loopback
  --config FILE        settings of the engine, YAML or JSON: what an entry of search.engines holds; may hold kind, too
  --timeout DURATION   longest time of a search, default 9s: less than the gateway waits
  --concurrency N      searches the engine runs at once; the others wait for those
  --secret-file FILE   what gateways must send as their secret; without it the variable HEADRACE_WORKER_SECRET counts

GET /health answers 200 once the engine can search, 503 before (an index that is being built) and while the worker ends;
GET /metrics has the counters. Neither asks for the secret. SIGTERM or SIGINT stops accepting, answers the searches in
flight and exits 0; a second signal exits at once.
`;

const FETCH = `headrace fetch URL [--format markdown] [--fetch.SETTING VALUE ...]

Fetches one page and prints its title and its main content as clean text. The page is read as the gateway would read it,
with the same guard: addresses of private networks are refused unless they are allowed.

  --format text|markdown     default text
  --include links,metadata   further fields; the answer is then printed as JSON
  --json true                the answer as JSON
  --fetch.allow HOST         a host or CIDR block that may be fetched although it is private
  --fetch.timeout 15s        and the other settings of the section \`fetch\`

Exit code 0: printed, 1: there is no such text, with a sentence on standard error.

For example
  headrace fetch https://example.com/ --format markdown
`;

/** The help of a command, or the general one. */
export function helpFor(command: string | undefined): string {
  switch (command) {
    case 'serve':
      return `${SERVE}${helpText()}\n`;
    case 'check':
      return CHECK;
    case 'demo':
      return DEMO;
    case 'host':
      return HOST;
    case 'fetch':
      return FETCH;
    case 'search-worker':
      return SEARCH_WORKER;
    default:
      return GENERAL_HELP;
  }
}
