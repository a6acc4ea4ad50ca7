/** The MCP server over streamable HTTP, on the loopback of this machine, behind a bearer token. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createMcpHandler, isLegacyRequest, type McpServer } from '@modelcontextprotocol/server';
import { CellaError } from '../../protocol/errors.ts';
import type { Era } from '../attend.ts';
import type { Log } from '../failure.ts';
import { Connections } from './connections.ts';
import { PATH, refusalOf } from './guard.ts';
import { send, toRequest } from './web.ts';

export interface HttpOptions {
  readonly port: number;
  readonly token: string;
  readonly make: (era: Era) => McpServer;
  readonly log: Log;
}

export interface HttpServed extends AsyncDisposable {
  readonly url: string;
}

export async function serveOverHttp({ port, token, make, log }: HttpOptions): Promise<HttpServed> {
  const onerror = (error: Error) => log(`protocol: ${error.message}`);
  // As a stream from the start: clients give up on an answer whose head does not come for minutes.
  const modern = createMcpHandler(({ era }) => make(era), { legacy: 'reject', responseMode: 'sse', onerror });
  const connections = new Connections(() => make('legacy'));
  const answer = async (request: Request): Promise<Response> => {
    const refusal = refusalOf(request, token);
    if (refusal) return refusal;
    const legacy = await isLegacyRequest(request);
    return legacy ? await connections.handle(request) : await modern.fetch(request);
  };
  const server = createServer((incoming, outgoing) => void handle(incoming, outgoing, answer, log));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: Error) => {
    throw new CellaError('INVALID_OPTIONS', `Port ${port} cannot be used: ${error.message}.`, { cause: error });
  });
  const address = server.address();
  const bound = typeof address === 'object' && address ? address.port : port;
  return {
    url: `http://127.0.0.1:${bound}${PATH}`,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      await Promise.all([modern.close(), connections.close()]);
      server.closeAllConnections();
      await closed;
    },
  };
}

async function handle(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: Request) => Promise<Response>,
  log: Log,
): Promise<void> {
  const gone = new AbortController();
  outgoing.on('close', () => gone.abort());
  outgoing.on('error', () => {}); // whoever it was for has gone
  try {
    await send(await answer(toRequest(incoming, gone.signal)), incoming, outgoing);
  } catch (error) {
    if (!gone.signal.aborted) log(`unexpected error: ${error instanceof Error ? error.stack : String(error)}`);
    if (!outgoing.headersSent) outgoing.writeHead(500);
    outgoing.end();
  }
}
