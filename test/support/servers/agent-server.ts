/** A server with coding agents for tests: the stand-in model behind the gateway, and the runner as it is built. */

import { chmod, copyFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { claudeProgram } from '../../../src/agents/claude/program.ts';
import { installProgram } from '../../../src/agents/install-program.ts';
import type { PermissionInfo } from '../../../src/protocol/permission.ts';
import { SessionEvent } from '../../../src/protocol/session-events.ts';
import type { TurnInfo } from '../../../src/protocol/turn.ts';
import { scratchFolder } from '../kernels/session.ts';
import type { TestServerOptions } from './serve-here.ts';
import { TestServer } from './server.ts';

/** The stand-in's key: found nowhere but at the model. */
export const KEY = 'sk-ant-canary-3f9c0d7b51e24a68';

/** One file, bundled from the source. `entry` is a program that runs agents of its own. */
export async function bundledRunner(entry = '../../../src/runner/cella-runner.ts'): Promise<string> {
  // A script without types of its own.
  const bundling: { bundleRunner(input: string, file: string): Promise<void> } = await import(
    new URL('../../../scripts/bundling/runner.mjs', import.meta.url).href
  );
  const folder = await scratchFolder();
  // As an installed one: the user of a container is another, and reads it too.
  await chmod(folder, 0o755);
  await bundling.bundleRunner(fileURLToPath(new URL(entry, import.meta.url)), join(folder, 'cella-runner.mjs'));
  return folder;
}

export interface AgentServerOptions extends TestServerOptions {
  readonly modelUrl: string;
  readonly runner: string;
  readonly programs?: string;
}

export async function agentServer({ modelUrl, runner, programs, ...more }: AgentServerOptions): Promise<TestServer> {
  const agents = { runner, ...(programs === undefined ? {} : { agents: programs }) };
  const server = await TestServer.start({
    gateway: { providers: [`anthropic=${modelUrl}`] },
    ...more,
    agents: { ...more.agents, programs: { ...agents, ...more.agents?.programs } },
  });
  // No turn begins without one.
  await setKey(server);
  return server;
}

/** The key that its owner's agents use. */
export async function setKey(server: TestServer, value = KEY, token?: string): Promise<void> {
  const { status, text } = await server.call('PUT /v1/credentials/anthropic', { body: { value }, token });
  if (status >= 300) throw new Error(`no credential: ${text}`);
}

/** In place of npm: brings all parts of Claude's program, as empty files. */
export async function npmStandIn(): Promise<string> {
  const npm = join(await scratchFolder(), 'npm');
  const files = claudeProgram.parts.map(([first = '']) => `node_modules/${first}`);
  const lines = files.map((file) => `mkdir -p ${dirname(file)} && : > ${file}`);
  await writeFile(npm, ['#!/bin/sh', ...lines, ''].join('\n'), { mode: 0o755 });
  return npm;
}

/** A folder with an agent that was installed by name alone: its program is never started. */
export async function namedPrograms(): Promise<string> {
  const programs = await scratchFolder();
  await installProgram(claudeProgram, { programs, npm: await npmStandIn() });
  return programs;
}

/** The folder of a runner that is one of ours, and no honest one. */
export async function hostileRunner(): Promise<string> {
  const folder = await scratchFolder();
  await chmod(folder, 0o755);
  await copyFile(new URL('../agents/hostile-runner.mjs', import.meta.url), join(folder, 'cella-runner.mjs'));
  return folder;
}

export async function prompt(
  server: TestServer,
  session: string,
  text: string,
  { token, headers = {}, ...more }: Record<string, unknown> & { token?: string; headers?: Record<string, string> } = {},
) {
  return await server.call<TurnInfo & { replayed: boolean; error?: { code: string; message: string } }>(
    `POST /v1/sessions/${session}/prompt`,
    { body: { prompt: text, ...more }, token, headers },
  );
}

/** All events that there are now. */
export async function eventsOf(server: TestServer, session: string, query = ''): Promise<SessionEvent[]> {
  const { json, text } = await server.call<{ events: unknown[] }>(
    `GET /v1/sessions/${session}/events?limit=10000${query}`,
  );
  if (!Array.isArray(json.events)) throw new Error(`no events: ${text}`);
  return json.events.map((event) => SessionEvent.parse(event));
}

/** Reads along until something is told; gives what was told so far. */
export async function until(
  server: TestServer,
  session: string,
  isIt: (event: SessionEvent) => boolean,
  { after = 0 }: { readonly after?: number } = {},
): Promise<SessionEvent[]> {
  const response = await server.fetch(`GET /v1/sessions/${session}/events?after=${after}`, {
    headers: { accept: 'application/x-ndjson' },
  });
  const seen: SessionEvent[] = [];
  let rest = '';
  const decoder = new TextDecoder();
  const found = (lines: readonly string[]) =>
    lines.some((line) => {
      const parsed = line === '' ? undefined : SessionEvent.safeParse(JSON.parse(line));
      if (parsed?.success) seen.push(parsed.data);
      return parsed?.success === true && isIt(parsed.data);
    });
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    const lines = (rest + decoder.decode(part.value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (!found(lines)) continue;
    await reader?.cancel();
    return seen;
  }
  throw new Error(`it was never told: ${seen.map(({ type }) => type).join(' ')} ${rest}`);
}

/** Waits for a request of that tool, and decides it. */
export async function decide(
  server: TestServer,
  session: string,
  decision: Record<string, unknown>,
  { after = 0, token }: { readonly after?: number; readonly token?: string } = {},
): Promise<PermissionInfo> {
  const events = await until(server, session, ({ type }) => type === 'permission_requested', { after });
  const asked = events.at(-1);
  if (asked?.type !== 'permission_requested') throw new Error('no permission was requested');
  const path = `POST /v1/sessions/${session}/permissions/${asked.id}`;
  const { json, status, text } = await server.call<PermissionInfo>(path, { body: decision, token });
  if (status !== 200) throw new Error(`not decided: ${text}`);
  return json;
}
