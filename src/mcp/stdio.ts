/** The MCP server over stdin and stdout, for the one client that has started this process. */

import { type McpServerFactory, STDIO_DEFAULT_MAX_BUFFER_SIZE } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Log } from './failure.ts';
import { takeStdout } from './own-stdout.ts';

export interface Served extends AsyncDisposable {
  /** The client has gone. */
  readonly over: Promise<void>;
}

export function serveOverStdio(factory: McpServerFactory, log: Log): Served {
  const stdout = takeStdout(process);
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
