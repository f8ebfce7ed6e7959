// Texts of `--help`.

import { helpText } from '../config/describe.ts';
import { BENCH_HELP } from './bench-help.ts';

/** What `headrace --help` prints. */
const GENERAL_HELP: string = `headrace: an ingress for hosted generative models

Usage
  headrace demo [--port N]              a gateway, four simulated model hosts and a key, without any set-up
  headrace serve --config FILE          the gateway; prints one ready line once the public port answers
  headrace check --config FILE          reads the configuration and explains what would run, or every mistake
  headrace host --model NAME --port N   a model host: simulated, or in front of llama-server, vLLM or a GGUF file
  headrace search-worker --engine KIND  one search engine on a port of its own, for gateways to call
  headrace bench URL --model NAME       a load on a system of yours, and how long it took
  headrace fetch URL                    a page as clean text
  headrace top                          what a running gateway does, live in the terminal
  headrace keys create --account NAME   makes a key; list, disable and rotate do what they say
  headrace credits grant ACCOUNT USD    gives credit; balance and history show it
  headrace usage                        what was used and charged, by account, key, model and day
  headrace audit                        proves that the books add up to zero
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
headrace host --engine URL --port N [--model NAME] [flags]
headrace host --gguf FILE --port N [--model NAME] [flags]
headrace host --fleet FILE [flags]

Serves a simulated model in four dialects (completions, chat completions, responses, messages) and over the llama-style
API (/completion, /infill, /tokenize, /detokenize, /props, /slots), streaming and not. The engine works in steps, as
real ones do: requests queue, share steps, keep prefixes in a cache and use up memory.

  --model NAME         the model; several separated by commas
  --port N             default 9001; 0 picks a free one
  --listen HOST:PORT   instead of --port, to serve other interfaces than loopback
  --engine simulated   the default; real engines are below
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

A real engine instead, with --port, --listen, --name and --config as above. The first line says what was found.
  --engine URL         stands in front of llama-server, vLLM or any OpenAI-compatible server: passes its dialects on and
                       translates the llama-style API; what it cannot do is refused by name (422)
  --engine-key KEY     the engine's own key; better in HEADRACE_ENGINE_KEY, where no list of processes shows it
  --engine-wait TIME   how long the engine may take to be ready, default 10m
  --gguf FILE          runs a model file in this process; needs the package node-llama-cpp beside headrace
  --model NAME         what clients call the model; default: the engine's own names, or that of the file
  --context N          most tokens of a sequence: of --gguf, and of engines that do not say
  --slots N, --threads N   of --gguf: sequences at once, default 4; threads, default one for each core
  --tokens N           of --gguf, as above

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

const TOP = `headrace top [--admin URL] [--once]

Shows a running gateway as its dashboard does: requests a second, latency, CRNs, models, engines, threads and the last
errors, renewed every second. q ends it. Into a file or a pipe it writes plain text, a screen a second.

  --admin URL        its admin listener, default http://127.0.0.1:9090
  --once             prints one screen, measured over a second, and ends

Exit code 0: done, 1: the gateway does not answer, with a sentence on standard error.
`;

/** Where the commands on accounts find them. */
const WHERE = `Where the accounts are
  --store URL        sqlite:FILE or postgres://USER@HOST/DATABASE
  --config FILE      the \`store\` of a configuration; only that is read of it
                     without either: HEADRACE_STORE, else sqlite:./headrace.db
  --admin URL        a running gateway, over its admin listener, instead of a store
  --token TOKEN      its \`adminToken\`; better in HEADRACE_ADMIN_TOKEN, where no list of processes shows it

  --format table|csv|json   default table; CSV by RFC 4180, amounts in JSON are decimal strings

Exit code 0: done, 1: refused, with a sentence on standard error.
`;

const KEYS = `headrace keys create --account NAME [--label TEXT] [--expires 30d] [--rpm N] [--tpm N] [--monthly USD] [--quiet]
headrace keys list [--account NAME]
headrace keys disable ID
headrace keys rotate ID [--grace 24h] [--expires 30d] [--quiet]

Keys of accounts. A key is shown once, when it is made; the store keeps its SHA-256 and its first characters. Running
gateways hear of a change within a second or so.

create makes the account too when it is new.
  --account NAME     who pays
  --label TEXT       for people
  --expires WHEN     a time from now (30d, 12h) or a date (2030-01-31, in UTC, or with a time); default never
  --rpm N            most requests a minute
  --tpm N            most tokens a minute
  --monthly USD      most money in a calendar month (UTC), such as 25.00
  --quiet            prints the key and nothing else

rotate makes a key with the account, label and limits of the old one, which goes on for a while.
  --grace TIME       how long, default 24h; 0s stops it now
  --expires WHEN     end of the new key; default: when the old one would have ended

${WHERE}
For example
  KEY=$(headrace keys create --account acme --expires 90d --monthly 25.00 --quiet)
`;

const CREDITS = `headrace credits grant ACCOUNT AMOUNT_USD [--id ID] [--memo TEXT]
headrace credits balance [ACCOUNT]
headrace credits history ACCOUNT [--limit N] [--before SEQ]

Credit of accounts. Amounts are USD as plain decimals with at most 12 digits behind the point, shown in USD and in
credits: 1 USD is 1,000,000 credits.

grant gives credit to an account that exists.
  --id ID            names the grant for ever: a repeat moves nothing, so a script may run twice; default a new one
  --memo TEXT        for people, kept in the history

history shows grants, payments and charges, the newest first.
  --limit N          most movements, default 50, at most 1000
  --before SEQ       only those before this one: the next page

${WHERE}
For example
  headrace credits grant acme 25.00 --id invoice-17
`;

const USAGE = `headrace usage [--by account,key,model,day] [--from DAY] [--to DAY] [--account NAME] [--key ID] [--model NAME]

What was used and charged, summed. \`estimated\` counts requests whose charge rests on an estimate, as after a broken
stream; an empty key stands for charges without one.

  --by LIST          one row for each combination of these; default all four, --by= gives one row of totals
  --from DAY         first day in UTC, such as 2030-01-01
  --to DAY           last day, included
  --account NAME     --key ID     --model NAME     only these

${WHERE}
For example
  headrace usage --by account,model --from 2030-01-01 --to 2030-01-31 --format csv
`;

const AUDIT = `headrace audit [--store URL | --config FILE | --admin URL] [--format table|csv|json]

Proves that the books are right: all entries ever add up to zero, as do those of each movement; balances equal their
entries, open holds what is kept aside, usage the income; settled payments are booked once. Reads one moment and changes
nothing. Exit code 1 when something does not add up, with a line for each.

${WHERE}`;

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
    case 'bench':
      return BENCH_HELP;
    case 'fetch':
      return FETCH;
    case 'search-worker':
      return SEARCH_WORKER;
    case 'top':
      return TOP;
    case 'keys':
      return KEYS;
    case 'credits':
      return CREDITS;
    case 'usage':
      return USAGE;
    case 'audit':
      return AUDIT;
    default:
      return GENERAL_HELP;
  }
}
