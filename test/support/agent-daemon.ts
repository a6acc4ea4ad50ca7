/** A server with coding agents for tests: the stand-in model behind the gateway, and the runner as it is built. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { hostMcp } from '../../src/mcp/hosted.ts';
import type { ServeOptions } from '../../src/daemon/serve.ts';
import type { PermissionInfo } from '../../src/protocol/http/permission-routes.ts';
import { SessionEvent } from '../../src/protocol/http/events.ts';
import type { TurnInfo } from '../../src/protocol/http/turns.ts';
import { Daemon } from './daemon.ts';
import { scratchFolder } from './session.ts';

/** The stand-in's key: found nowhere but at the model. */
export const KEY = 'sk-ant-canary-3f9c0d7b51e24a68';

/** One file, bundled from the source. `entry` is a program that runs agents of its own. */
export async function bundledRunner(entry = '../../src/runner/cella-runner.ts'): Promise<string> {
  // A script without types of its own.
  const bundling: { bundleRunner(input: string, file: string): Promise<void> } = await import(
    new URL('../../scripts/bundling/runner.mjs', import.meta.url).href
  );
  const folder = await scratchFolder();
  await bundling.bundleRunner(fileURLToPath(new URL(entry, import.meta.url)), join(folder, 'cella-runner.mjs'));
  return folder;
}

export interface AgentDaemonOptions extends Partial<ServeOptions> {
  readonly modelUrl: string;
  readonly runner: string;
  readonly programs?: string;
}

export async function agentDaemon({ modelUrl, runner, programs, ...more }: AgentDaemonOptions): Promise<Daemon> {
  const agents = { runner, ...(programs === undefined ? {} : { agents: programs }) };
  const daemon = await Daemon.start({
    mcp: async (session) => hostMcp({ ...session, version: '0' }),
    gateway: { providers: [`anthropic=${modelUrl}`] },
    ...more,
    agents: { ...more.agents, programs: { ...agents, ...more.agents?.programs } },
  });
  return daemon;
}

/** The key that its owner's agents use. */
export async function setKey(daemon: Daemon, value = KEY, token?: string): Promise<void> {
  const { status, text } = await daemon.call('PUT /v1/credentials/anthropic', { body: { value }, token });
  if (status >= 300) throw new Error(`no credential: ${text}`);
}

export async function prompt(
  daemon: Daemon,
  session: string,
  text: string,
  { token, headers = {}, ...more }: Record<string, unknown> & { token?: string; headers?: Record<string, string> } = {},
) {
  return await daemon.call<TurnInfo & { joined: boolean; error?: { code: string; message: string } }>(
    `POST /v1/sessions/${session}/prompt`,
    { body: { prompt: text, ...more }, token, headers },
  );
}

/** All events that there are now. */
export async function eventsOf(daemon: Daemon, session: string, query = ''): Promise<SessionEvent[]> {
  const { json, text } = await daemon.call<{ events: unknown[] }>(`GET /v1/sessions/${session}/events?limit=10000${query}`);
  if (!Array.isArray(json.events)) throw new Error(`no events: ${text}`);
  return json.events.map((event) => SessionEvent.parse(event));
}

/** Reads along until something is told; gives what was told so far. */
export async function until(
  daemon: Daemon,
  session: string,
  isIt: (event: SessionEvent) => boolean,
  { after = 0 }: { readonly after?: number } = {},
): Promise<SessionEvent[]> {
  const over = new AbortController();
  const response = await daemon.fetch(`GET /v1/sessions/${session}/events?after=${after}`, {
    headers: { accept: 'application/x-ndjson' },
    signal: over.signal,
  });
  const seen: SessionEvent[] = [];
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines.filter((one) => one !== '')) {
      const parsed = SessionEvent.safeParse(JSON.parse(line));
      if (!parsed.success) continue;
      seen.push(parsed.data);
      if (!isIt(parsed.data)) continue;
      over.abort();
      return seen;
    }
  }
  throw new Error(`it was never told: ${seen.map(({ type }) => type).join(' ')} ${rest}`);
}

/** Waits for a request of that tool, and decides it. */
export async function decide(
  daemon: Daemon,
  session: string,
  decision: Record<string, unknown>,
  { after = 0, token }: { readonly after?: number; readonly token?: string } = {},
): Promise<PermissionInfo> {
  const events = await until(daemon, session, ({ type }) => type === 'permission_requested', { after });
  const asked = events.at(-1);
  if (asked?.type !== 'permission_requested') throw new Error('nothing was asked for');
  const path = `POST /v1/sessions/${session}/permissions/${asked.id}`;
  const { json, status, text } = await daemon.call<PermissionInfo>(path, { body: decision, token });
  if (status !== 200) throw new Error(`not decided: ${text}`);
  return json;
}

export function removedAtEnd(folder: string): void {
  afterAll(() => rm(folder, { recursive: true, force: true }));
}
