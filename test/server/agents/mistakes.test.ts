/**
 * Mistakes of earlier systems about runners, keys and permissions. Each has a test with its name, in the file below
 * test/ that the table lists. Tests that fit into no other suite are here.
 *
 * | mistake | its test |
 * |---|---|
 * | the socket was open to any local user | server/agents/mistakes.test.ts |
 * | the last connection won | server/agents/mistakes.test.ts |
 * | any local user got the token | server/agents/mistakes.test.ts |
 * | the pool passed the server’s whole environment | server/agents/runners.test.ts |
 * | a missing key was an empty string | server/gateway/credentials.test.ts |
 * | a failed decrypt fell through to the shared key | server/gateway/credentials.test.ts |
 * | a failed sudo ran as the server’s user | server/agents/mistakes.test.ts |
 * | the client said who had decided | server/permissions/http.test.ts |
 * | any event name could be emitted with any session id | server/agents/mistakes.test.ts |
 * | a 30 s call timeout undercut longer prompts | server/agents/mistakes.test.ts |
 * | stop was refused while a permission was pending | server/agents/runners.test.ts |
 * | stacks crossed the wire | server/agents/mistakes.test.ts |
 * | a signal counted as exit code 0 | server/agents/runners.test.ts |
 * | non-zero exits were ignored | server/agents/runners.test.ts |
 * | an old one overwrote a newer one | contract/environment/execution-environment.test.ts |
 * | an empty file was read as missing | contract/environment/files.ts |
 * | /workspace-evil passed the /workspace check | contract/environment/files.ts |
 * | symlinks passed the /workspace check | contract/environment/files.ts |
 * | commands were joined into shell strings | contract/environment/exec.ts |
 * | WebSockets were open to anyone | server/access/routes-and-tokens.test.ts |
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import type { SessionEvent } from '../../../src/protocol/session-events.ts';
import { makeGatewayFolder } from '../../../src/sandbox/mount-points.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { canBeAnother, oneself, stranger } from '../../support/processes/other-user.ts';
import { descendants } from '../../support/processes/processes.ts';
import {
  agentServer,
  decide,
  eventsOf,
  hostileRunner,
  namedPrograms,
  prompt,
  until,
} from '../../support/servers/agent-server.ts';
import type { TestServer } from '../../support/servers/server.ts';

const STACK = /\.ts\b|\bat .*:\d+|"stack"/;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
let cella: TestServer;
let made = 0;
/** Sessions whose turns may wait for leave still. */
const left: string[] = [];

beforeAll(async () => {
  const [runner, programs] = await Promise.all([hostileRunner(), namedPrograms()]);
  const runners = { pingEveryMs: DAY_MS, graceMs: 500 };
  cella = await agentServer({ modelUrl: 'http://127.0.0.1:9', runner, programs, agents: { runners } });
});
afterEach(() => void vi.useRealTimers());
afterAll(async () => {
  await Promise.all(left.map((id) => cella.call(`POST /v1/sessions/${id}/stop`)));
});

const gates = () => join(cella.facts.dataDir, 'gates');
const gateNames = () => readdirSync(gates());

interface Waiting {
  readonly id: string;
  readonly turn: string;
  /** What its runner speaks under, and the socket that leads from it to the server. */
  readonly token: string;
  readonly gate: string;
}

/** A session whose runner waits for leave. */
async function waiting(more: Record<string, unknown> = {}): Promise<Waiting> {
  const { id } = await cella.session({ agentKey: `mistake ${++made}`, permissionTimeoutMs: 0, ...more });
  const before = new Set(existsSync(gates()) ? gateNames() : []);
  const { json } = await prompt(cella, id, 'shown ls', { wait: false, timeoutMs: DAY_MS });
  const events = await until(cella, id, ({ type }) => type === 'permission_requested');
  const told = events.flatMap((event) => (event.type === 'item_completed' && event.item === 'c' ? [event.text] : []));
  const claim: { session_token: string } = JSON.parse(told[0] ?? '');
  const gate = join(gates(), gateNames().find((name) => !before.has(name)) ?? '', 'socket');
  left.push(id);
  return { id, turn: json.id, token: claim.session_token, gate };
}

const textsIn = (events: readonly SessionEvent[]) =>
  events.flatMap((event) => (event.type === 'item_completed' ? [event.text] : []));
const saidIn = async (id: string) => textsIn(await eventsOf(cella, id));
/** What was said until the first turn has ended. */
const endOf = async (id: string) => textsIn(await until(cella, id, ({ type }) => type === 'turn_ended'));

test('each mistake of the table has a test of its name where the table says', () => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  const own = read('mistakes.test.ts');
  const rows = [...own.matchAll(/^ \* \| ([^|]+) \| (\S+\.ts) \|$/gm)].map(([, mistake = '', file = '']) => ({
    mistake,
    file,
  }));
  expect(rows.length).toBeGreaterThanOrEqual(20);
  // The name of a test ends with it, or begins with it and says what holds instead.
  const named = ({ mistake, file }: { mistake: string; file: string }) =>
    read(`../../${file}`)
      .split('\n')
      .some((line) => /^\s*(test|it)\b/.test(line) && line.includes(mistake));
  expect(rows.filter((row) => !named(row))).toEqual([]);
});

const modeOf = (path: string) => statSync(path).mode & 0o777;

test('the folder of the sockets is closed to others, whatever the umask and its previous owner', async () => {
  const parent = join(await scratchFolder(), 'gates');
  const before = process.umask(0);
  try {
    makeGatewayFolder(parent);
    expect(modeOf(parent)).toBe(0o700);
    chmodSync(parent, 0o777);
    expect(makeGatewayFolder(parent)).not.toBe(makeGatewayFolder(parent));
    expect(modeOf(parent)).toBe(0o700);
  } finally {
    process.umask(before);
  }
});

let both: Promise<readonly [Waiting, Waiting]> | undefined;
/** One in the sandbox, and one that is not kept from the host. */
const oneOfEach = () => {
  both ??= waiting().then(async (sandboxed) => [sandboxed, await waiting({ sandbox: 'off' })] as const);
  return both;
};

test.runIf(canBeAnother)('the socket was open to any local user', async () => {
  const all = await oneOfEach();
  const runners = descendants(process.pid).filter(({ command }) => command.includes('cella-runner.mjs serve'));
  expect(runners.length).toBeGreaterThanOrEqual(2);
  const pids = [process.pid, ...runners.map(({ pid }) => pid)];
  const attempts = {
    connect: [cella.facts.socketPath, ...all.map(({ gate }) => gate)],
    // Also those that have no name: the descriptors that a runner and its server speak by.
    open: [gates(), ...pids.flatMap((pid) => [`/proc/${pid}/fd`, `/proc/${pid}/mem`])],
  };
  // Everybody passes through the data folder itself here, as in a home folder that is not closed.
  expect(modeOf(cella.facts.dataDir) & 0o001).toBe(1);
  const own = oneself(attempts);
  expect(new Set([...own.connect, ...own.open])).toEqual(new Set(['ok']));
  const gained = stranger(attempts);
  expect(new Set([...gained.connect, ...gained.open])).toEqual(new Set(['EACCES']));
});

test.runIf(canBeAnother)('any local user got the token', async () => {
  const [{ token, id }, open] = await oneOfEach();
  const { dataDir, adminTokenPath, url } = cella.facts;
  const seen = 'cella-runner.mjs';
  const attempts = { folders: [dataDir], open: [adminTokenPath], words: [token, open.token, cella.token, seen] };
  // The logs of the sessions have what their runners have told.
  expect(oneself(attempts)).toMatchObject({ open: ['ok'], found: attempts.words });
  expect(stranger(attempts)).toMatchObject({ open: ['EACCES'], found: [seen] });
  // The port is there for all, and tells nothing to who has no token; that of a runner is good for its own gate alone.
  for (const shown of [null, token]) {
    const answer = await cella.call(`GET /v1/sessions/${id}/events`, { token: shown });
    expect([url, answer.status]).toEqual([url, 401]);
    expect(answer.text).not.toContain(token);
  }
});

/** Asks for the session's MCP server behind a gate. */
async function askMcp(gate: string, token?: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const sent = request({ socketPath: gate, method: 'POST', path: '/mcp', headers, agent: false }, (answer) => {
    answer.resume();
    resolve(answer.statusCode);
  });
  sent.on('error', reject);
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }));
  return await promise;
}

test('the last connection won: a later one takes nothing over, and each runner gets its own calls', async () => {
  const [one, two] = [await waiting(), await waiting()];
  // The second of two runners has come, and each gate knows its own alone.
  const strangers = [await askMcp(one.gate), await askMcp(one.gate, two.token), await askMcp(two.gate, one.token)];
  expect(strangers).toEqual([401, 403, 403]);
  expect([await askMcp(one.gate, one.token), await askMcp(two.gate, two.token)]).toEqual([200, 200]);
  await decide(cella, one.id, { decision: 'deny', reason: 'for the first' });
  await decide(cella, two.id, { decision: 'deny', reason: 'for the second' });
  const [first, second] = [await endOf(one.id), await endOf(two.id)];
  expect(first.at(-1)).toContain('for the first');
  expect(second.at(-1)).toContain('for the second');
  // Both are those of before.
  for (const { id } of [one, two]) expect((await prompt(cella, id, 'left')).json.text).toContain('was left');
});

test('any event name could be emitted with any session id', async () => {
  const [mine, other] = [await waiting(), await waiting()];
  await decide(cella, mine.id, { decision: 'allow' });
  await endOf(mine.id);
  const before = await eventsOf(cella, other.id);
  const names = ['turn_started', 'turn_ended', 'permission_requested', 'permission_resolved', 'result', 'anything'];
  const more = { id: 'prm_0000000000000000', outcome: 'allowed', by: 'local', status: 'completed', text: 'forged' };
  const own = [
    ...names.map((type) => ({ event: { type, ...more } })),
    { method: 'emit', event: { type: 'agent_notice', text: 'forged' } },
    { method: 'permission_resolved', request_id: more.id, outcome: 'allowed' },
  ];
  const said = await prompt(cella, mine.id, `emit ${JSON.stringify(own)}`);
  expect(said.json.status).toBe('completed');
  const answers: { code: number }[] = JSON.parse((await saidIn(mine.id)).at(-1) ?? '');
  expect(answers.map(({ code }) => code)).toEqual([...names.map(() => -32602), -32601, -32601]);
  const forged = { session_id: other.id, event: { type: 'agent_notice', text: 'forged' } };
  const lies = [forged, { ...forged, session_token: other.token }, { ...forged, turn_id: other.turn }];
  for (const lie of lies) {
    const { json } = await prompt(cella, mine.id, `emit ${JSON.stringify([lie])}`);
    expect(json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_PROTOCOL' } });
  }
  expect(await eventsOf(cella, other.id)).toEqual(before);
  const told = (await eventsOf(cella, mine.id)).filter(({ type }) => type !== 'turn_started');
  expect(JSON.stringify(told)).not.toContain('forged');
});

test('stacks crossed the wire: neither a runner nor its user gets one', async () => {
  const { id } = await waiting();
  await decide(cella, id, { decision: 'allow' });
  await endOf(id);
  const asked = [
    { event: { type: 'anything' } },
    { method: 'nothing' },
    { method: 'get_api_key', provider: 'anthropic' },
  ];
  const { json } = await prompt(cella, id, `emit ${JSON.stringify(asked)}`);
  const answers: { code: number; message: string }[] = JSON.parse(json.text ?? '');
  expect(answers.map(({ message }) => message.length > 0)).toEqual([true, true, true]);
  expect(json.text).not.toMatch(STACK);
  const broken = await prompt(cella, id, 'stack');
  expect(broken.json).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('broken') } });
  expect(`${broken.text}${JSON.stringify(await eventsOf(cella, id))}`).not.toMatch(/secret|x\.ts/);
});

test('a 30 s call timeout undercut longer prompts', async () => {
  // Between the leaps it goes as any clock does.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
  const { id, turn } = await waiting();
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  expect((await cella.call(`GET /v1/sessions/${id}/turns/${turn}`)).json.status).toBe('running');
  await decide(cella, id, { decision: 'allow' });
  expect((await endOf(id)).at(-1)).toContain('allowed');
  expect((await cella.call(`GET /v1/sessions/${id}/turns/${turn}`)).json.status).toBe('completed');
});

const without = fileURLToPath(new URL('../../support/processes/without-layer.py', import.meta.url));
const child = fileURLToPath(new URL('agent-child.ts', import.meta.url));

test('a failed sudo ran as the server’s user: without the right to switch users, nothing runs', async () => {
  const [dataDir, runner, programs] = [await scratchFolder(), await scratchFolder(), await namedPrograms()];
  chmodSync(runner, 0o777);
  const mark = join(runner, 'ran');
  const lines = ["import { writeFileSync } from 'node:fs';", `writeFileSync(${JSON.stringify(mark)}, '');`, ''];
  writeFileSync(join(runner, 'cella-runner.mjs'), lines.join('\n'));
  const lost = process.getuid?.() === 0 ? 'setresuid' : 'userns';
  const argv = [without, lost, process.execPath, child, dataDir, runner, programs];
  const server = spawn(process.env.CELLA_PYTHON ?? '/usr/bin/python3', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(server, 'exit');
  onTestFinished(async () => {
    server.kill('SIGKILL');
    await gone;
  });
  const [line] = await once(server.stdout, 'data');
  const { url, token } = JSON.parse(String(line));
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = { method: 'POST', headers, body: JSON.stringify(body) };
    return JSON.parse(await (await fetch(new URL(path, url), sent)).text());
  };
  const turnIn = async (settings: object) => {
    const { id } = await post('/v1/sessions', { agentKey: JSON.stringify(settings), ...settings });
    return await post(`/v1/sessions/${id}/prompt`, { prompt: 'plain' });
  };
  expect(await turnIn({})).toMatchObject({ status: 'failed', error: { code: 'SANDBOX_UNAVAILABLE' } });
  expect(existsSync(mark)).toBe(false);
  // By name alone, and only so, it runs as the server itself.
  await turnIn({ sandbox: 'off' });
  expect(existsSync(mark)).toBe(true);
  rmSync(mark);
});
