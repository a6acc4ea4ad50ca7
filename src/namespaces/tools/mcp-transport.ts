/** The way to an MCP server: a program of the host, or a URL. */

import { SSEClientTransport, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { authenticate, type Credentials, resolveEnvironment } from './credentials.ts';
import { type HostPlace, hostEnv } from './host-command.ts';
import type { McpTool } from './mcp-definition.ts';
import { ProgramTransport } from './mcp-program.ts';

export interface McpTransport {
  readonly transport: Transport;
  /** Forms of credentials that must not come back to the code. */
  readonly secrets: readonly string[];
  /** What the program has written to stderr lately. */
  lastWords(): string;
}

export async function makeTransport(
  tool: McpTool,
  place: HostPlace,
  credentials: Credentials | undefined,
): Promise<McpTransport> {
  if (tool.command === undefined) return await overHttp(tool, credentials);
  const { env, secrets } = await resolveEnvironment(tool.env ?? {}, credentials, tool.name);
  const program = { command: tool.command, args: tool.args ?? [], env: { ...hostEnv(place), ...env }, cwd: place.cwd };
  const transport = new ProgramTransport(program);
  return { transport, secrets, lastWords: () => transport.lastWords };
}

async function overHttp(tool: McpTool, credentials: Credentials | undefined): Promise<McpTransport> {
  const { headers, secrets } = await authenticate(tool.auth, credentials, tool.name);
  const url = new URL(tool.url ?? '');
  const options = { requestInit: { headers: { ...tool.headers, ...headers } } };
  const transport =
    tool.transport === 'sse' ? new SSEClientTransport(url, options) : new StreamableHTTPClientTransport(url, options);
  return { transport, secrets, lastWords: () => '' };
}
