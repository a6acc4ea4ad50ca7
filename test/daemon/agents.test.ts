/** The real Claude, prompted by way of a server: in the no-network sandbox of its session, through the gateway, under permissions. */

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { agentDaemon, bundledRunner, decide, eventsOf, KEY, prompt, setKey, until } from '../support/agent-daemon.ts';
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

beforeAll(async () => {
  model = await Model.start();
  dataDir = await scratchFolder();
  logFile = join(await scratchFolder(), 'log');
  const [runner, program] = await Promise.all([bundledRunner(), sharedProgram('claude')]);
  daemon = await agentDaemon({
    modelUrl: model.url,
    runner,
    programs: dirname(dirname(program)),
    dataDir,
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
