/**
 * `cella mcp`: serves one client over stdin and stdout, or local clients over HTTP, until they disconnect or the server is
 * stopped.
 */

import { Console } from 'node:console';
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { Writable } from 'node:stream';
import { type McpServerFactory, STDIO_DEFAULT_MAX_BUFFER_SIZE } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { LogLine } from './execution-result.ts';
import { PooledMcpBackend, type PooledMcpBackendOptions } from './mcp-backend.ts';
import { createMcpServer } from './mcp-server.ts';
import type { ProtocolEra } from './tools/run-code.ts';

export interface ServeMcpOptions extends Omit<PooledMcpBackendOptions, 'agentKey' | 'log'> {
  readonly version: string;
  /** Default: the key of the current folder. */
  readonly agentKey?: string | undefined;
  readonly http?: McpHttpOptions | undefined;
  /** Resolves when the server should stop. */
  readonly ended: Promise<unknown>;
  readonly log: LogLine;
}

interface McpHttpOptions {
  /** 0 for any free port. */
  readonly port: number;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
}

export async function serveMcp(options: ServeMcpOptions): Promise<void> {
  const { version, log, ended, http } = options;
  const agentKey = options.agentKey ?? agentKeyOfFolder(process.cwd());
  await using backend = new PooledMcpBackend({ ...options, agentKey });
  const make = (era: ProtocolEra) => createMcpServer(backend, { era, version });
  if (http === undefined) {
    await using served = serveOverStdio(({ era }) => make(era), log);
    await Promise.race([served.over, ended]);
    return;
  }
  const { dataDir } = options.session;
  const { findToken, serveOverHttp } = await import('./loopback-http.ts');
  const token = await findToken({ given: http.token, file: http.tokenFile, dataDir });
  await using served = await serveOverHttp({ port: http.port, token: token.value, make, log });
  log(`MCP at ${served.url}; agent key ${agentKey}; the bearer token is in ${token.where}`);
  await ended;
}

const MAX_NAME_CHARACTERS = 40;

/** A readable key that is unique to the folder, and the same through every symlink to it. */
export function agentKeyOfFolder(folder: string): string {
  const path = realpathSync(folder);
  const readable = basename(path)
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .slice(0, MAX_NAME_CHARACTERS)
    .toWellFormed();
  const hash = createHash('sha256').update(path).digest('hex').slice(0, 8);
  return `${readable || 'folder'}-${hash}`;
}

interface StdioConnection extends AsyncDisposable {
  /** Resolves when the client has disconnected. */
  readonly over: Promise<void>;
}

function serveOverStdio(factory: McpServerFactory, log: LogLine): StdioConnection {
  const stdout = reserveStdout(process);
  const options = { maxBufferSize: STDIO_DEFAULT_MAX_BUFFER_SIZE };
  const transport = new StdioServerTransport(process.stdin, stdout, options);
  const handle = serveStdio(factory, { transport, onerror: (error) => log(`protocol: ${error.message}`) });
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const closed = transport.onclose;
  transport.onclose = () => {
    closed?.();
    resolve();
  };
  return { over, [Symbol.asyncDispose]: () => handle.close() };
}

interface OutputStreams {
  readonly stdout: Writable;
  readonly stderr: Writable;
}

/** Reserves stdout for the protocol: returns the only stream that reaches it, and sends everything else to stderr. */
export function reserveStdout({ stdout, stderr }: OutputStreams): Writable {
  const write = stdout.write.bind(stdout);
  const own = new Writable({
    decodeStrings: false,
    write: (chunk: string | Uint8Array, _encoding, done) => void write(chunk, (error) => done(error ?? null)),
  });
  stdout.on('error', (error) => own.destroy(error));
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write;
  globalThis.console = new Console({ stdout: stderr, stderr });
  return own;
}
