/** Real MCP clients of a real `cella mcp`, over both transports and in both revisions of the protocol. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { launcher } from '../support/cli/command.ts';

export type Era = 'legacy' | 'modern';
export type Elicited = { readonly message: string };
/** What a person does with a form. */
export type Person = (form: Elicited) => Record<string, unknown> | 'decline' | Promise<Record<string, unknown>>;

export interface Wanted {
  readonly flags?: readonly string[];
  readonly era?: Era;
  /** Who answers; without one the client cannot ask. */
  readonly person?: Person | undefined;
  readonly folder?: string;
  readonly env?: Record<string, string>;
}

export const TOKEN = 'a token of this test alone';
const VERSION = '2026-07-28';

export class Connected implements AsyncDisposable {
  readonly client: Client;
  readonly pid: number | null;
  readonly #end: () => Promise<void>;

  constructor(client: Client, pid: number | null, end: () => Promise<void>) {
    this.client = client;
    this.pid = pid;
    this.#end = end;
  }

  async call(
    name: string,
    args: Record<string, unknown> = {},
    options: Parameters<Client['callTool']>[1] = {},
  ): Promise<CallToolResult> {
    return await this.client.callTool({ name, arguments: args }, options);
  }

  async run(
    code: string,
    args: Record<string, unknown> = {},
    options: Parameters<Client['callTool']>[1] = {},
  ): Promise<{ text: string; failed: boolean; result: CallToolResult }> {
    const result = await this.call('run_code', { code, ...args }, options);
    return { text: textOf(result), failed: result.isError === true, result };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    await this.#end();
  }
}

export function textOf({ content }: CallToolResult): string {
  return content.map((block) => (block.type === 'text' ? block.text : `<${block.type}>`)).join('');
}

export class McpHost implements Disposable {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'cella-mcp-'));
  /** Where servers are started that name no folder. */
  readonly folder = mkdtempSync(join(tmpdir(), 'cella mcp ü '));
  readonly #children: ChildProcess[] = [];

  get env(): Record<string, string> {
    const own = Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined);
    return { ...Object.fromEntries(own), CELLA_DATA_DIR: this.dataDir, CELLA_AGENT_KEY: '', NO_COLOR: '1' };
  }

  async stdio(wanted: Wanted = {}): Promise<Connected> {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [launcher, 'mcp', ...(wanted.flags ?? [])],
      env: { ...this.env, ...wanted.env },
      cwd: wanted.folder ?? this.folder,
    });
    const client = clientOf(wanted);
    await client.connect(transport);
    return new Connected(client, transport.pid, async () => {});
  }

  /** A server on a free port. */
  async serve({ flags = [], folder = this.folder, env = {} }: Wanted = {}): Promise<HttpServer> {
    const args = [launcher, 'mcp', '--http', '0', ...flags];
    const child = spawn(process.execPath, args, {
      env: { ...this.env, CELLA_MCP_TOKEN: TOKEN.replaceAll(' ', '-'), ...env },
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#children.push(child);
    let told = '';
    child.stderr.setEncoding('utf8');
    for (;;) {
      const [part] = await Promise.race([once(child.stderr, 'data'), once(child, 'exit').then(() => [undefined])]);
      if (part === undefined) throw new Error(`it ended: ${told}`);
      told += part;
      const url = /MCP at (http:\S+);/.exec(told)?.[1];
      if (url !== undefined) return new HttpServer(child, url, told);
    }
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    for (const folder of [this.dataDir, this.folder]) rmSync(folder, { recursive: true, force: true });
  }
}

export class HttpServer implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
  readonly told: string;

  constructor(child: ChildProcess, url: string, told: string) {
    this.child = child;
    this.url = url;
    this.told = told;
  }

  async connect(wanted: Wanted = {}): Promise<Connected> {
    const authorization = `Bearer ${TOKEN.replaceAll(' ', '-')}`;
    const transport = new StreamableHTTPClientTransport(new URL(this.url), {
      requestInit: { headers: { authorization } },
    });
    const client = clientOf(wanted);
    await client.connect(transport);
    return new Connected(client, null, async () => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    await exited;
  }
}

function clientOf({ era = 'legacy', person }: Wanted): Client {
  const mode = era === 'legacy' ? 'legacy' : { pin: VERSION };
  const capabilities = person ? { elicitation: {} } : {};
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
  if (person) {
    client.setRequestHandler('elicitation/create', async ({ params }) => {
      const content = await person({ message: params.message });
      if (content === 'decline') return { action: 'decline' };
      return { action: 'accept', content: content as Record<string, string | boolean> };
    });
  }
  return client;
}
