// The part of Express that a test uses; the package brings no types of its own.

declare module 'express' {
  import type { IncomingMessage, Server, ServerResponse } from 'node:http';

  type Handler = (req: IncomingMessage, res: ServerResponse & { send(body: string): void }) => void;

  interface Application {
    use(handler: Handler): void;
    use(path: string, handler: Handler): void;
    get(path: string, handler: Handler): void;
    listen(port: number, host: string, ready: () => void): Server;
  }

  const express: { (): Application; json(): Handler };
  export default express;
}
