// Text of `headrace bench --help`; help.ts shows it.

/** What `headrace bench --help` prints. */
export const BENCH_HELP: string = `headrace bench URL --model NAME [flags]
headrace bench --make FILE [flags of the workload]

Puts a load on a system that speaks one of the dialects (a gateway, a model server, a service of others) and tells how
long it took. URL is where the paths begin, with or without /v1. Prints a table, the course of the run to standard
error. Ctrl-C ends the run with what there is so far.

How requests arrive
  --users N               closed loop: N users, each waits for its answer; default 8
  --rate N                open loop: N conversations begin each second, whatever becomes of those before
  --arrivals KIND         of --rate: poisson (default) or constant. trace: the time stamps of --workload
  --speed N               of a trace: so many times as fast
  --ramp DURATION         starts the users one by one, or raises the rate from zero
  --warm-up DURATION      what should leave in this time is sent and not counted
  --duration DURATION     how long requests leave after the warm-up; default 30s, with --requests or a trace no limit
  --requests N            how many leave after the warm-up
  --grace DURATION        how long those under way at the end may take; default 30s, then they are cut and counted
  --max-in-flight N       of an open loop: what would be one more is dropped and counted; default 4096
  --think DURATION        between an answer and the next turn of its conversation; default none

What is asked
  --model NAME            the model
  --dialect NAME          chat (default), completions, responses, messages or llama (POST /completion)
  --stream false          whole answers; default true
  --input-tokens N|N-M    of what a user says, about one word each; default 128
  --output-tokens N|N-M   most tokens of an answer; default 64. Of a file with conversations: no answer longer than this
  --turns N|N-M           of a conversation; a turn is sent with all before it, the model's own answers included
  --prefixes N            how many beginnings (system messages) conversations share; default none
  --prefix-tokens N       how long those are, default 256
  --workload FILE         ShareGPT: [{conversations: [{from, value}]}], JSON or a line each; Mooncake: lines of
                          {timestamp, input_length, output_length, hash_ids}, equal hashes are equal text
  --seed N                of lengths, texts and arrivals; default 1
  --ignore-eos true       asks for answers as long as allowed (vLLM, SGLang, the simulated host)
  --body JSON             further members of every body, such as {"temperature": 0}
  --headers JSON          further headers
  --key KEY               sent as a bearer token; better in HEADRACE_KEY, where no list of processes shows it
  --timeout DURATION      longest time of a request, default 10m
  --make FILE             writes a synthetic workload instead of running one: .jsonl as a Mooncake trace at --rate
                          (default 10), otherwise conversations as ShareGPT; --requests N of them, default 1000

What comes out
  --slo LIMITS            what a request should keep to, for goodput: ttft:500ms,itl:50ms,e2e:10s; also stall (longest
                          gap) and tpot (by output token)
  --fail-on CONDITIONS    exit code 1 when one comes true: errors>1%,goodput<95%,ttft.p99>500ms,rps<10,dropped>0,late>0;
                          latencies are e2e, service, head, ttfe, ttft, itl, tpot, with --truth also added (to the first
                          text) and delay (of a token), at mean, min, p50, p90, p95, p99, p99.9, max
  --truth true            asks a simulated host (headrace host) what really happened, and tells what lies between
  --json FILE             the report; - for standard output, instead of the table
  --csv FILE              a line for each request
  --html FILE             one page with plots that needs nothing else
  --progress false        keeps standard error quiet

How to read it
  response counts from when a request should have left, service from when it did. In an open loop a server that stalls
  shows in the response of all who would have come meanwhile; in a closed loop they would just not have asked. "sent
  late" and "dropped" tell whether this client kept up: when they are many, the figures are about it. first event is the
  first with data, first text the first with output of the model; between texts are the gaps after it.

Exit code 0: measured, 1: a condition of --fail-on came true, nothing was answered, or the command line makes no sense.

For example
  headrace bench http://127.0.0.1:8080 --model atlas-27b --rate 20 --duration 1m --slo ttft:500ms,itl:50ms
  headrace bench http://127.0.0.1:8080 --model atlas-27b --users 16 --turns 4 --prefixes 10 --html report.html
`;
