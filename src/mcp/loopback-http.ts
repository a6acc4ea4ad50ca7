/** The MCP server over HTTP on 127.0.0.1. Accepts only callers with the bearer token, and no web pages. */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  createMcpHandler,
  hostHeaderValidationResponse,
  isLegacyRequest,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  type McpServer,
  originValidationResponse,
} from '@modelcontextprotocol/server';
import { toRequestWithBody } from '../lib/node-web.ts';
import { readOwnFile } from '../lib/private-file.ts';
import { messageOf, systemCode } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import type { LogLine } from './execution-result.ts';
import { LegacyConnections } from './mcp-server.ts';
import type { ProtocolEra } from './tools/run-code.ts';

interface LoopbackHttpOptions {
  readonly port: number;
  readonly token: string;
  readonly make: (era: ProtocolEra) => McpServer;
  readonly log: LogLine;
}

interface LoopbackHttpServer extends AsyncDisposable {
  readonly url: string;
}

export async function serveOverHttp({ port, token, make, log }: LoopbackHttpOptions): Promise<LoopbackHttpServer> {
  const onerror = (error: Error) => log(`protocol: ${error.message}`);
  // Streams from the start, because clients give up on a response whose headers do not arrive for minutes.
  const modern = createMcpHandler(({ era }) => make(era), { legacy: 'reject', responseMode: 'sse', onerror });
  const connections = new LegacyConnections(() => make('legacy'));
  const answer = async (request: Request): Promise<Response> => {
    const refusal = rejectRequest(request, token);
    if (refusal) return refusal;
    const legacy = await isLegacyRequest(request);
    return legacy ? await connections.handle(request) : await modern.fetch(request);
  };
  const server = createServer((incoming, outgoing) => void handleRequest(incoming, outgoing, answer, log));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: Error) => {
    throw new CellaError('INVALID_OPTIONS', `Port ${port} cannot be used: ${error.message}.`, { cause: error });
  });
  const address = server.address();
  const bound = typeof address === 'object' && address ? address.port : port;
  return {
    url: `http://127.0.0.1:${bound}${MCP_PATH}`,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      await Promise.all([modern.close(), connections.close()]);
      server.closeAllConnections();
      await closed;
    },
  };
}

async function handleRequest(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: Request) => Promise<Response>,
  log: LogLine,
): Promise<void> {
  const gone = new AbortController();
  outgoing.on('close', () => gone.abort());
  outgoing.on('error', () => {}); // the client has disconnected
  try {
    await sendWebResponse(await answer(toRequestWithBody(incoming, gone.signal)), incoming, outgoing);
  } catch (error) {
    if (!gone.signal.aborted) log(`unexpected error: ${error instanceof Error ? error.stack : String(error)}`);
    if (!outgoing.headersSent) outgoing.writeHead(500);
    outgoing.end();
  }
}

const MCP_PATH = '/mcp';

/** The response to a rejected request; undefined if the request may proceed. */
function rejectRequest(request: Request, token: string): Response | undefined {
  const tricked =
    hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
    originValidationResponse(request, localhostAllowedOrigins());
  if (tricked) return tricked;
  const [, offered = ''] = /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (!isToken(offered, token)) {
    const headers = { 'www-authenticate': 'Bearer realm="cella"' };
    return Response.json(
      { error: 'A bearer token is needed; `cella mcp --help` says where it is.' },
      { status: 401, headers },
    );
  }
  if (new URL(request.url).pathname === MCP_PATH) return undefined;
  return Response.json({ error: `The MCP endpoint is ${MCP_PATH}.` }, { status: 404 });
}

/** How long a client that is rejected during its request may keep sending before it reads the response. */
const DRAIN_TIMEOUT_MS = 5000;

async function sendWebResponse(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (response.body) {
    const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
    // A client that disconnects has ended its stream.
    await pipeline(body, outgoing, { end: false }).catch(() => {});
  }
  await drainBody(incoming);
  outgoing.end();
}

/** A connection that closes with unread data loses the response. */
async function drainBody(incoming: IncomingMessage): Promise<void> {
  if (incoming.complete || incoming.destroyed) return;
  incoming.resume();
  const signal = AbortSignal.timeout(DRAIN_TIMEOUT_MS);
  // Late or disconnected: stop waiting.
  await Promise.race([once(incoming, 'end', { signal }), once(incoming, 'close', { signal })]).catch(() => {});
}

const MIN_TOKEN_CHARACTERS = 16;
const MAX_TOKEN_FILE_BYTES = 4096;

interface BearerTokenSource {
  /** The value of CELLA_MCP_TOKEN. */
  readonly given?: string | undefined;
  readonly file?: string | undefined;
  readonly dataDir: string;
}

interface BearerToken {
  readonly value: string;
  /** Tells a person where the token is. */
  readonly where: string;
}

/**
 * Takes the bearer token from the environment or a file, or creates one. Never from the command line, which other users can
 * read.
 */
export async function findToken({ given, file, dataDir }: BearerTokenSource): Promise<BearerToken> {
  if (given !== undefined) return { value: checkToken(given, 'CELLA_MCP_TOKEN'), where: 'CELLA_MCP_TOKEN' };
  if (file !== undefined) return { value: await readTokenFile(file), where: file };
  const own = join(dataDir, 'mcp-token');
  await mkdir(dirname(own), { recursive: true, mode: 0o700 });
  try {
    await writeFile(own, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw tokenError(own, error);
  }
  return { value: await readTokenFile(own), where: own };
}

/** Compares in constant time. */
function isToken(offered: string, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(offered), digest(token));
}

/** A file that others can read is not secret, and a link may lead to another user's file. */
async function readTokenFile(path: string): Promise<string> {
  const file = await readOwnFile(path, { maxBytes: MAX_TOKEN_FILE_BYTES }).catch((error) => {
    throw tokenError(path, error);
  });
  if (file.kind === 'missing') throw tokenError(path, 'there is no such file');
  if (file.kind === 'unusable') throw tokenError(path, file.reason);
  if ((file.mode & 0o077) !== 0) {
    throw new CellaError('INVALID_OPTIONS', `Others can read the token in ${path}. Run: chmod 600 ${path}`);
  }
  return checkToken(file.text.trim(), path);
}

function checkToken(token: string, where: string): string {
  if (token.length >= MIN_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(token)) return token;
  const message = `The token in ${where} must be at least ${MIN_TOKEN_CHARACTERS} characters of plain text without spaces.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function tokenError(path: string, cause: unknown): CellaError {
  const reason = messageOf(cause);
  return new CellaError('INVALID_OPTIONS', `The token cannot be read from ${path}: ${reason}.`, { cause });
}
