// Texts of `--help`.

import { helpText } from '../config/describe.ts';

/** What `headrace --help` prints. */
const GENERAL_HELP: string = `headrace: an ingress for hosted generative models

Usage
  headrace demo [--port N]              a gateway, four simulated model hosts and a key, without any set-up
  headrace serve --config FILE          the gateway; prints one ready line once the public port answers
  headrace check --config FILE          reads the configuration and explains what would run, or every mistake
  headrace host --model NAME --port N   a simulated model host, for tests and benchmarks
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

Serves a simulated model in four dialects (completions, chat completions, responses, messages), streaming and not, with
usage, deterministic text and faults on demand.

  --model NAME         the model; several separated by commas
  --port N             default 9001; 0 picks a free one
  --listen HOST:PORT   instead of --port, to serve other interfaces than loopback
  --engine simulated   the only engine of this version
  --name NAME          the header x-host of every answer
  --ttft MS            time to the first token, default 30
  --itl MS             time between two tokens, default 10; 0 is as fast as the socket takes it
  --tokens N           length of an answer when the request names none, default 16
  --config FILE        asks for the keys of the section \`keys\` of this file
  --control true       serves POST /sim/faults

Faults by request header, for example
  curl -H 'x-headrace-fault: reset-after=3' ...
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
    default:
      return GENERAL_HELP;
  }
}
