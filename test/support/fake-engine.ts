// HTTP server behind the fake inference engines of the tests: it records every request, and a test can replace its answer to any
// path.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON; an empty object when there is none. */
  readonly body: Record<string, unknown>;
}

export type Answer = (request: SeenRequest, response: ServerResponse) => void;

export interface FakeEngine {
  readonly url: string;
  readonly port: number;
  /** When set, whoever has another bearer token is answered 401. */
  key: string | null;
  /** Requests, oldest first, without those of the detection: `attached` forgets them. */
  readonly requests: SeenRequest[];
  /** Answers by path; a test may replace any at any time. */
  readonly answers: Map<string, Answer>;
  /** Resolves when a client has left before its answer ended. */
  readonly abandoned: Promise<void>;
  /** Forgets what was asked so far. */
  forget(): void;
  /** The last request to a path. */
  last(path: string): SeenRequest;
  close(): Promise<void>;
}

/** Answers with JSON. */
export function json(value: unknown, status = 200): Answer {
  return (_, response) => {
    const text = JSON.stringify(value);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(text);
  };
}

/** Answers with events; strings are sent as they are, anything else as the data of an event. */
export function events(frames: readonly unknown[], end: 'end' | 'cut' | 'stay' = 'end'): Answer {
  return (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const frame of frames) {
      response.write(typeof frame === 'string' ? frame : `data: ${JSON.stringify(frame)}\n\n`);
    }
    if (end === 'end') response.end();
    if (end === 'cut') response.write('', () => setImmediate(() => response.destroy()));
  };
}

/** Starts an engine; what `answers` does not know is answered by `missing`. Port 0: any. */
export async function startFakeEngine(
  answers: Map<string, Answer>,
  missing: Answer,
  wantedPort: number = 0,
): Promise<FakeEngine> {
  const requests: SeenRequest[] = [];
  const abandoned = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    response.on('close', () => {
      if (!response.writableFinished) abandoned.resolve();
    });
    void read(request).then((seen) => {
      requests.push(seen);
      const isRefused = fake.key !== null && seen.headers.authorization !== `Bearer ${fake.key}`;
      const answer = isRefused ? json({ error: 'Unauthorized' }, 401) : (answers.get(seen.path) ?? missing);
      answer(seen, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(wantedPort, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const fake: FakeEngine = {
    url: `http://127.0.0.1:${port}`,
    port,
    key: null,
    requests,
    answers,
    abandoned: abandoned.promise,
    forget: () => void (requests.length = 0),
    last(path) {
      const found = requests.findLast((request) => request.path === path);
      if (found === undefined) throw new Error(`nobody asked for ${path}`);
      return found;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return fake;
}

async function read(request: IncomingMessage): Promise<SeenRequest> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const text = Buffer.concat(pieces).toString();
  const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  return { method: request.method ?? '', path: request.url ?? '', headers: request.headers, text, body };
}
