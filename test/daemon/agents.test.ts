/** The real Claude, prompted by way of a server: in the no-network sandbox of its session, through the gateway, under permissions. */

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect } from '../../src/client/index.ts';
import type { WorkerPool } from '../../src/daemon/workers/pool.ts';
import { agentDaemon, bundledRunner, decide, eventsOf, KEY, prompt, setKey, until } from '../support/agent-daemon.ts';
import { crashInMidTurn } from '../support/crashes.ts';
import type { Daemon } from '../support/daemon.ts';
import { Model } from '../support/model.ts';
import { descendants } from '../support/processes.ts';
import { scratchFolder } from '../support/session.ts';
import { sharedProgram } from '../support/shared-agents.ts';

const ANOTHER_KEY = 'sk-ant-canary-of-another-user-77';
const INSIDE = '/agent/workspace';

let model: Model;
let daemon: Daemon;
let dataDir: string;
let logFile: string;
let pool: WorkerPool;
let runner: string;
let programs: string;

beforeAll(async () => {
  model = await Model.start();
  dataDir = await scratchFolder();
  logFile = join(await scratchFolder(), 'log');
  const [bundled, program] = await Promise.all([bundledRunner(), sharedProgram('claude')]);
  runner = bundled;
  programs = dirname(dirname(program));
  daemon = await agentDaemon({
    modelUrl: model.url,
    runner,
    programs,
    dataDir,
    agents: {
      onPool: (made) => {
        pool = made;
      },
    },
    log: { level: 'debug', file: logFile },
  });
}, 180_000);
afterAll(() => model[Symbol.asyncDispose]());

/** What processes show of themselves to whoever may look: not this one, which is the server. */
function shownByProcesses(): string {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const files = pids.flatMap((pid) =>
    ['environ', 'cmdline', 'comm', 'status', 'maps'].map((name) => `/proc/${pid}/${name}`),
  );
  const read = (file: string) => {
    try {
      return readFileSync(file, 'latin1');
    } catch {
      return ''; // it has ended, or is nobody's business
    }
  };
  const links = pids.flatMap((pid) => {
    try {
      return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
    } catch {
      return [];
    }
  });
  return [...files.map(read), ...links].join('\n');
}

function environOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return ''; // it has ended
  }
}

/** Those alone that came from this process. */
function kill(command: string): void {
  const found = descendants(process.pid).filter((one) => one.command.includes(command));
  expect(found).not.toEqual([]);
  for (const { pid } of found) process.kill(pid, 'SIGKILL');
}

/** Files below a folder that hold a text. */
function filesWith(folder: string, text: string): string {
  try {
    return execFileSync('grep', ['-rlaF', '--', text, folder], { encoding: 'utf8' });
  } catch {
    return ''; // grep found none
  }
}

describe('a prompt to the real agent', { timeout: 120_000 }, () => {
  test('works in the session’s workspace and kernel under a permission, streams to all, and holds no key anywhere', async () => {
    const { id } = await daemon.session({ agentKey: 'whole' });
    await daemon.run(id, 'from_person = 20');
    const computing = prompt(daemon, id, '#cell from_agent = from_person + 1; print(from_agent)');
    await decide(daemon, id, { decision: 'allow' });
    const { json: computed } = await computing;
    expect(computed).toMatchObject({ status: 'completed', agent: 'claude', text: expect.stringContaining('21') });
    expect(await daemon.run(id, 'from_agent * 2')).toMatchObject({ value: 42 });

    const before = (await eventsOf(daemon, id)).at(-1)?.seq ?? 0;
    const writing = prompt(daemon, id, `#write ${INSIDE}/letter.txt dear`);
    const asked = await until(daemon, id, ({ type }) => type === 'permission_requested', { after: before });
    expect(asked.at(-1)).toMatchObject({ tool: 'Write', summary: expect.stringContaining('letter.txt') });
    // While the agent waits, all of its processes are there to be looked at.
    expect(shownByProcesses()).not.toContain(KEY);
    await decide(daemon, id, { decision: 'allow' }, { after: before });
    expect((await writing).json.status).toBe('completed');
    expect((await daemon.run(id, 'open("letter.txt").read()')).value).toBe('dear\n');

    const events = await eventsOf(daemon, id);
    const types = new Set(events.map(({ type }) => type));
    for (const type of ['turn_started', 'agent_session', 'item_delta', 'item_completed', 'usage', 'turn_ended']) {
      expect(types).toContain(type);
    }
    const { json: transcript } = await daemon.call<{ text: string; revision: number }>(
      `GET /v1/sessions/${id}/transcript`,
    );
    expect(transcript).toMatchObject({ revision: 2, text: expect.stringContaining('letter.txt') });
    const { json: usage } = await daemon.call(`GET /v1/sessions/${id}/usage`);
    expect(usage).toMatchObject({ calls: expect.any(Number), output: expect.any(Number) });
    expect(Number(usage.calls)).toBeGreaterThanOrEqual(4);

    expect(model.seen.map(({ key }) => key)).toContain(KEY);
    expect(JSON.stringify([events, transcript, usage])).not.toContain(KEY);
    expect(await readFile(logFile, 'utf8')).not.toContain(KEY);
    expect(filesWith(dataDir, KEY)).toBe('');
  });

  test('goes on with its conversation after its executor was killed, and tells why that began anew', async () => {
    const { id } = await daemon.session({ agentKey: 'goes-on' });
    const first = await prompt(daemon, id, '#plain');
    expect(first.json.status).toBe('completed');
    const hangs = model.hangs();
    const hanging = prompt(daemon, id, '#hang');
    await hangs;
    kill('cella-runner.mjs serve');
    expect((await hanging).json).toMatchObject({ status: 'failed', error: { code: 'WORKER_FAILED' } });
    const { json } = await prompt(daemon, id, '#remember');
    expect(json).toMatchObject({ status: 'completed', conversation: first.json.conversation });
    expect(json.text).toContain('#plain');
    const notice = (await eventsOf(daemon, id)).find(
      (event) => event.type === 'agent_notice' && event.text.includes('anew'),
    );
    expect(notice).toBeDefined();
  });

  test('that crashes with its executor in mid-turn leaves no dump, and its memory holds no key', async () => {
    const { id } = await daemon.session({ agentKey: 'crashes' });
    await crashInMidTurn({ daemon, model, session: id, dataDir, program: 'claude-agent-sdk-linux' });
  });

  test('each person’s prompt goes out with that person’s own key, at the same time, and with none where there is none', async () => {
    const [ann, bob] = await Promise.all([daemon.user('ann', 'member'), daemon.user('bob', 'member')]);
    await setKey(daemon, ANOTHER_KEY, ann);
    const [own, others, bobs] = await Promise.all([
      daemon.session({ agentKey: 'own' }),
      daemon.session({ agentKey: 'anns' }, ann),
      daemon.session({ agentKey: 'bobs' }, bob),
    ]);
    model.seen.length = 0;
    const [mine, anns, none] = await Promise.all([
      prompt(daemon, own.id, 'mine #plain'),
      prompt(daemon, others.id, 'hers #plain', { token: ann }),
      prompt(daemon, bobs.id, 'his #plain', { token: bob }),
    ]);
    expect([mine.json.status, anns.json.status]).toEqual(['completed', 'completed']);
    expect(none).toMatchObject({ status: 403, json: { error: { code: 'CREDENTIAL_MISSING' } } });
    const keyOf = (word: string) =>
      new Set(model.seen.filter(({ text }) => text.includes(`${word} #plain`)).map(({ key }) => key));
    expect(keyOf('mine')).toEqual(new Set([KEY]));
    expect(keyOf('hers')).toEqual(new Set([ANOTHER_KEY]));
    expect(keyOf('his')).toEqual(new Set());
    expect(none.json.error).toMatchObject({ code: 'CREDENTIAL_MISSING', message: expect.stringContaining('bob') });
  });

  test('that meets its budget ends with that told in its own words, and what was used is there for the person', async () => {
    const token = await daemon.user('carl', 'member');
    await setKey(daemon, ANOTHER_KEY, token);
    await daemon.call('PATCH /v1/users/carl', { body: { quotas: { modelTokensPerDay: 10 } } });
    const { id } = await daemon.session({ agentKey: 'spends' }, token);
    expect((await prompt(daemon, id, '#plain', { token })).json.status).toBe('completed');
    const { json } = await prompt(daemon, id, '#plain', { token });
    expect(json).toMatchObject({
      status: 'failed',
      error: { code: 'BUDGET_EXCEEDED', message: expect.stringContaining('10 tokens of models a day') },
    });
    const { json: used } = await daemon.call<{ days: { calls: number; output: number }[] }>('GET /v1/usage', { token });
    expect(used.days).toMatchObject([{ calls: expect.any(Number), output: expect.any(Number) }]);
    const { json: ofSession } = await daemon.call(`GET /v1/sessions/${id}/usage`, { token });
    expect(ofSession.output).toBe(used.days[0]?.output);
    const { text } = await daemon.call('GET /metrics');
    expect(text).toMatch(/^cella_model_tokens_total\{kind="output"\} [1-9]/m);
  });

  test('reaches a listed host through the proxy, and what it may not reach is told with its turn', async () => {
    const host = createServer((_request, response) => response.end('from the listed host')).listen(0, '127.0.0.1');
    await once(host, 'listening');
    onTestFinished(() => void host.close());
    const { port } = host.address() as AddressInfo;
    const { id } = await daemon.session({ sandbox: { network: { allow: [`127.0.0.1:${port}`] } } });
    const fetching = (url: string) =>
      `#run NO_PROXY= no_proxy= python3 -c 'import urllib.request as u; print(u.urlopen("${url}").read())'`;
    const reached = await prompt(daemon, id, fetching(`http://127.0.0.1:${port}/`), { mode: 'bypass' });
    expect(reached.json).toMatchObject({ status: 'completed', text: expect.stringContaining('from the listed host') });
    const { json } = await prompt(daemon, id, fetching('http://other.example/'), { mode: 'bypass' });
    expect(json).toMatchObject({ status: 'completed', text: expect.stringContaining('403') });
    const denied = (await eventsOf(daemon, id)).filter(({ type }) => type === 'network_denied');
    expect(denied).toMatchObject([{ host: 'other.example', port: 80, reason: 'not_listed', turn: json.id }]);
  });

  test('goes on where the gateway is restarted in the middle of an answer, tells that it tries again, and the next follows', async () => {
    const { id } = await daemon.session({ agentKey: 'gateway' });
    const hangs = model.hangs();
    const cut = prompt(daemon, id, '#hangonce restart');
    await hangs;
    await (await pool.worker(id))?.gate.restart();
    const { json } = await cut;
    expect(json).toMatchObject({ status: 'completed', text: 'Hello from the stand-in model.' });
    const notices = (await eventsOf(daemon, id)).filter(({ type }) => type === 'agent_notice');
    expect(notices).toMatchObject([{ text: expect.stringContaining('could not be reached; trying again') }]);
    const { json: next } = await prompt(daemon, id, '#remember');
    expect(next).toMatchObject({ status: 'completed', conversation: json.conversation });
    expect(next.text).toContain('#hangonce');
  });

  test('with keys just in time: the key is in the agent’s own process alone', async () => {
    model.seen.length = 0;
    const given = await agentDaemon({
      modelUrl: model.url,
      gateway: { providers: [`anthropic=${model.url}`], keys: 'just-in-time' },
      runner,
      programs,
    });
    await setKey(given, ANOTHER_KEY);
    const { id } = await given.session({ agentKey: 'key', sandbox: { network: 'host' } });
    const writing = prompt(given, id, `#write ${INSIDE}/a.txt x`);
    await until(given, id, ({ type }) => type === 'permission_requested');
    const holders = descendants(process.pid).filter(({ pid }) => environOf(pid).includes(ANOTHER_KEY));
    expect(holders).not.toEqual([]);
    for (const { command } of holders) expect(command).toContain('claude');
    await decide(given, id, { decision: 'allow' });
    expect((await writing).json.status).toBe('completed');
    expect(new Set(model.seen.map(({ key }) => key))).toEqual(new Set([ANOTHER_KEY]));
    expect(JSON.stringify(await eventsOf(given, id))).not.toContain(ANOTHER_KEY);
  });

  test('is there for the client: events as they come, and how it ended', async () => {
    await using client = await connect({ url: daemon.url, token: daemon.token });
    await using session = await client.open({ agentKey: 'client' });
    const prompted = session.prompt('#plain');
    const types: string[] = [];
    for await (const { type } of prompted) types.push(type);
    expect(types[0]).toBe('turn_started');
    expect(types.at(-1)).toBe('turn_ended');
    expect(await prompted.turn).toMatchObject({ status: 'completed', text: 'Hello from the stand-in model.' });
    expect((await session.transcript()).text).toContain('#plain');
  });
});
