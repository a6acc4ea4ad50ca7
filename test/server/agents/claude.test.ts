/** The real Claude, prompted by way of a server: in the no-network sandbox of its session, through the gateway, under permissions. */

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import { programFolders, runnerEnvironmentOpener } from '../../../src/server/runners/runner-environment.ts';
import type { RunnerPool } from '../../../src/server/runners/runner-pool.ts';
import { Model } from '../../support/agents/model.ts';
import { sharedProgram } from '../../support/agents/shared-agents.ts';
import { runHere } from '../../support/cli/cli-here.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { descendants } from '../../support/processes/processes.ts';
import {
  agentServer,
  bundledRunner,
  decide,
  eventsOf,
  KEY,
  prompt,
  setKey,
  until,
} from '../../support/servers/agent-server.ts';
import { type Follower, overLines, overSocket, overSse, type Told } from '../../support/servers/followers.ts';
import type { TestServer } from '../../support/servers/server.ts';
import { crashInMidTurn } from '../gateway/crashes.ts';

const ANOTHER_KEY = 'sk-ant-canary-of-another-user-77';
const A_THIRD_KEY = 'sk-ant-canary-of-a-third-user-78';
const INSIDE = '/agent/workspace';

let model: Model;
let cella: TestServer;
let dataDir: string;
let logFile: string;
let pool: RunnerPool;
let runner: string;
let programs: string;

beforeAll(async () => {
  model = await Model.start();
  dataDir = await scratchFolder();
  logFile = join(await scratchFolder(), 'log');
  const [bundled, program] = await Promise.all([bundledRunner(), sharedProgram('claude')]);
  runner = bundled;
  programs = dirname(dirname(program));
  cella = await agentServer({
    modelUrl: model.url,
    runner,
    programs,
    dataDir,
    agents: {
      onPool: (made) => {
        pool = made;
      },
    },
    logLevel: 'debug',
    logFile,
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

/** The keys of the calls for a prompt with these words: those of earlier ones, which are in the same conversation, come before. */
function keysOf(words: string, earlier: readonly string[] = []): (string | undefined)[] {
  const isFor = ({ text }: { readonly text: string }) =>
    text.includes(words) && earlier.every((other) => text.lastIndexOf(other) < text.lastIndexOf(words));
  return [...new Set(model.seen.filter(isFor).map(({ key }) => key))];
}

/** What the model is told of the agent's own tools in the turn whose prompt has these words. */
function ownToolsOf(words: string): string[] {
  const all = ['by all', 'by REST', 'by client', 'by CLI'];
  const calls = model.seen.filter(({ text }) => {
    const last = Math.max(...all.map((one) => text.lastIndexOf(one)));
    return last >= 0 && text.lastIndexOf(words) === last;
  });
  const told = calls.map(({ text }): { tools: { name: string }[] } => JSON.parse(text));
  const [names = [], ...later] = told.map(({ tools }) => tools.map(({ name }) => name));
  for (const others of later) expect(others).toEqual(names);
  // Those of the session's own MCP server are there in any case.
  expect(names).toContain('mcp__cella__run_code');
  // The program's mark for tools that it would tell of later: nothing can be done with it.
  return names.filter((name) => !name.startsWith('mcp__') && name !== 'DeferredToolPlaceholder').toSorted();
}

/** A web server on loopback, as a network policy names it. */
async function listedHost(): Promise<{ host: string }> {
  const server = createServer((_request, response) => response.end('from the listed host')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { host: `127.0.0.1:${port}` };
}

const fetchIn = (url: string) =>
  `NO_PROXY= no_proxy= python3 -c 'import urllib.request as u; print(u.urlopen("${url}").read())'`;

describe('a prompt to the real agent', { timeout: 120_000 }, () => {
  test('works in the session’s workspace and kernel with permission, streams to all clients, and no process holds a key', async () => {
    const { id } = await cella.session({ agentKey: 'whole' });
    const secondEnd = () => {
      let ends = 0;
      return ({ type }: Told) => type === 'turn_ended' && ++ends === 2;
    };
    const follow = (follower: Follower) => follower(cella, id, secondEnd());
    const followers = await Promise.all([overSocket, overSocket, overLines, overSse].map(follow));
    await cella.run(id, 'from_person = 20');
    const computing = prompt(cella, id, '#cell from_agent = from_person + 1; print(from_agent)');
    await decide(cella, id, { decision: 'allow' });
    const { json: computed } = await computing;
    expect(computed).toMatchObject({ status: 'completed', agent: 'claude', text: expect.stringContaining('21') });
    expect(await cella.run(id, 'from_agent * 2')).toMatchObject({ value: 42 });

    const before = (await eventsOf(cella, id)).at(-1)?.seq ?? 0;
    const writing = prompt(cella, id, `#write ${INSIDE}/letter.txt dear`);
    const asked = await until(cella, id, ({ type }) => type === 'permission_requested', { after: before });
    expect(asked.at(-1)).toMatchObject({ tool: 'Write', summary: expect.stringContaining('letter.txt') });
    followers.push(await follow(overSocket), await follow(overLines));
    // While the agent waits, all of its processes are there to be looked at.
    expect(shownByProcesses()).not.toContain(KEY);
    await decide(cella, id, { decision: 'allow' }, { after: before });
    expect((await writing).json.status).toBe('completed');
    expect((await cella.run(id, 'open("letter.txt").read()')).value).toBe('dear\n');

    // Whenever they came, and by whatever way.
    const { json: log } = await cella.call<{ events: Told[] }>(`GET /v1/sessions/${id}/events?limit=10000`);
    const isLast = secondEnd();
    const told = log.events.slice(0, log.events.findIndex(isLast) + 1);
    expect(told.map(({ seq }) => seq)).toEqual(told.map((_event, at) => at + 1));
    for (const { seen } of followers) expect(await seen).toEqual(told);
    const events = await eventsOf(cella, id);
    const types = new Set(events.map(({ type }) => type));
    for (const type of ['turn_started', 'agent_session', 'item_delta', 'item_completed', 'usage', 'turn_ended']) {
      expect(types).toContain(type);
    }
    const { json: transcript } = await cella.call<{ text: string; revision: number }>(
      `GET /v1/sessions/${id}/transcript`,
    );
    expect(transcript).toMatchObject({ revision: 2, text: expect.stringContaining('letter.txt') });
    const { json: usage } = await cella.call(`GET /v1/sessions/${id}/usage`);
    expect(usage).toMatchObject({ calls: expect.any(Number), output: expect.any(Number) });
    expect(Number(usage.calls)).toBeGreaterThanOrEqual(4);

    expect(model.seen.map(({ key }) => key)).toContain(KEY);
    expect(JSON.stringify([events, transcript, usage])).not.toContain(KEY);
    expect(await readFile(logFile, 'utf8')).not.toContain(KEY);
    expect(filesWith(dataDir, KEY)).toBe('');
  });

  test('continues its conversation after its runner was killed, and says why the runner restarted', async () => {
    const { id } = await cella.session({ agentKey: 'goes-on' });
    const first = await prompt(cella, id, '#plain');
    expect(first.json.status).toBe('completed');
    const hangs = model.hangs();
    const hanging = prompt(cella, id, '#hang');
    await hangs;
    kill('cella-runner.mjs serve');
    expect((await hanging).json).toMatchObject({ status: 'failed', error: { code: 'RUNNER_FAILED' } });
    const { json } = await prompt(cella, id, '#remember');
    expect(json).toMatchObject({ status: 'completed', conversation: first.json.conversation });
    expect(json.text).toContain('#plain');
    const notice = (await eventsOf(cella, id)).find(
      (event) => event.type === 'agent_notice' && event.text.includes('restarted'),
    );
    expect(notice).toBeDefined();
  });

  test('starts one runner and no other process, with a profile and with a rewritten conversation', async () => {
    const started: unknown[] = [];
    const own = await scratchFolder();
    const open = runnerEnvironmentOpener(programFolders(own, { runner, agents: programs }));
    const counted = await agentServer({
      modelUrl: model.url,
      runner,
      programs,
      dataDir: own,
      agents: {
        runners: { idleMs: 0 },
        openEnvironment: async (...given) => {
          const place = await open(...given);
          const exec = place.environment.exec.bind(place.environment);
          place.environment.exec = (argv, options) => {
            started.push(argv.at(-1));
            return exec(argv, options);
          };
          return place;
        },
      },
    });
    const { id } = await counted.session();
    const body = { systemPrompt: 'Be short.', rules: { tone: 'kind' }, files: { 'a.txt': 'of the profile' } };
    expect((await counted.call('PUT /v1/profiles/mine', { body })).status).toBe(200);
    const first = await prompt(counted, id, '#plain', { profile: 'mine' });
    expect([first.json.status, started]).toEqual(['completed', ['serve']]);
    const forget = 'import os, shutil\nshutil.rmtree(os.path.expanduser("~/.claude"))\nopen("a.txt").read()';
    expect((await counted.run(id, forget)).value).toBe('of the profile');
    const { json } = await prompt(counted, id, '#remember', { profile: 'mine' });
    expect(json).toMatchObject({ status: 'completed', conversation: first.json.conversation });
    expect(json.text).toContain('#plain');
    expect(started).toEqual(['serve', 'serve']);
  });

  test('reports thoughts, a plan, and a subagent with its items, as separate events', async () => {
    const { id } = await cella.session({ agentKey: 'tells' });
    const { json } = await prompt(cella, id, `#muse ${INSIDE}`, { mode: 'bypass' });
    expect(json.status).toBe('completed');
    const events = await eventsOf(cella, id);
    const itemOf = (kind: string) => {
      const begun = events.find((event) => event.type === 'item_started' && event.kind === kind);
      return begun?.type === 'item_started' ? begun : undefined;
    };
    const completed = events.filter((event) => event.type === 'item_completed');
    const [thought, subagent] = [itemOf('reasoning'), itemOf('subagent')];
    const pieces = events.flatMap((event) =>
      event.type === 'item_delta' && event.item === thought?.item ? [event.text] : [],
    );
    expect(pieces.join('')).toBe('Let me think about it.');
    const whole = { item: thought?.item, kind: 'reasoning', status: 'completed', text: 'Let me think about it.' };
    expect(completed).toContainEqual(expect.objectContaining(whole));
    const entries = [
      { text: 'Look', status: 'completed' },
      { text: 'Leap', status: 'in_progress' },
    ];
    expect(events.filter(({ type }) => type === 'plan')).toMatchObject([{ turn: json.id, entries }]);
    expect(subagent).toMatchObject({ turn: json.id, input: { description: 'Look around' } });
    const parts = completed.filter(({ parent }) => parent !== undefined && parent === subagent?.item);
    expect(parts.map(({ kind, status }) => [kind, status])).toEqual([
      ['message', 'completed'],
      ['tool', 'completed'],
      ['message', 'completed'],
    ]);
    const output = expect.stringContaining('The tools said');
    const ended = { item: subagent?.item, kind: 'subagent', status: 'completed', output };
    expect(completed).toContainEqual(expect.objectContaining(ended));
    expect(events.filter(({ type }) => type === 'agent_raw')).toEqual([]);
  });

  test('that needs more memory than its session has fails, with advice', async () => {
    const { id } = await cella.session({ agentKey: 'small', limits: { memoryMb: 128 } });
    const { json } = await prompt(cella, id, '#plain');
    // Whichever of the two is the larger goes.
    const code = expect.stringMatching(/^(AGENT_DIED|RUNNER_OUT_OF_MEMORY)$/);
    expect(json).toMatchObject({
      status: 'failed',
      error: { code, advice: expect.stringContaining('limits.memoryMb') },
    });
  });

  test('that crashes with its runner during a turn leaves no dump, and its memory contains no key', async () => {
    const { id } = await cella.session({ agentKey: 'crashes' });
    await crashInMidTurn({ server: cella, model, session: id, dataDir, program: 'claude-agent-sdk-linux' });
  });

  test('of two users at once has each one’s key, rules, mode and network, and a third user without a key gets an error', async () => {
    const { host } = await listedHost();
    const [ann, dora, bob] = await Promise.all([
      cella.user('ann', 'admin'),
      cella.user('dora', 'member'),
      cella.user('bob', 'member'),
    ]);
    await Promise.all([setKey(cella, ANOTHER_KEY, ann), setKey(cella, A_THIRD_KEY, dora)]);
    const rule = { tool: 'Write', pattern: `${INSIDE}/*` };
    const { json, status } = await cella.call('POST /v1/permission-rules', { body: rule, token: ann });
    expect(status).toBe(201);
    const [anns, doras, bobs] = await Promise.all([
      cella.session({ agentKey: 'same', sandbox: { network: { allow: [host] } } }, ann),
      cella.session({ agentKey: 'same' }, dora),
      cella.session({ agentKey: 'same' }, bob),
    ]);
    model.seen.length = 0;
    const writing = Promise.all([
      prompt(cella, anns.id, `by ann #write ${INSIDE}/same.txt`, { token: ann }),
      prompt(cella, doras.id, `by dora #write ${INSIDE}/same.txt`, { token: dora }),
      prompt(cella, bobs.id, `by bob #write ${INSIDE}/same.txt`, { token: bob }),
    ]);
    // The rule of one is not the other's: she is asked, and says no.
    await decide(cella, doras.id, { decision: 'deny', reason: 'not in mine' }, { token: dora });
    const [hers, others, none] = await writing;
    expect(hers.json).toMatchObject({ status: 'completed' });
    expect(others.json).toMatchObject({ status: 'completed', text: expect.stringContaining('not in mine') });
    expect(none).toMatchObject({ status: 403, json: { error: { code: 'CREDENTIAL_MISSING' } } });
    expect(none.json.error?.message).toContain('bob');
    const resolvedIn = async (id: string) =>
      (await eventsOf(cella, id)).filter(({ type }) => type === 'permission_resolved');
    expect(await resolvedIn(anns.id)).toMatchObject([{ outcome: 'allowed', scope: 'always', by: json.id }]);
    expect(await resolvedIn(doras.id)).toMatchObject([{ outcome: 'denied', by: expect.stringMatching(/^dora~/) }]);
    const fetching = `#run ${fetchIn(`http://${host}/`)}`;
    const [reached, refused] = await Promise.all([
      prompt(cella, anns.id, `by ann ${fetching}`, { token: ann, mode: 'bypass' }),
      prompt(cella, doras.id, `by dora ${fetching}`, { token: dora, mode: 'bypass' }),
    ]);
    expect(reached.json).toMatchObject({ status: 'completed', text: expect.stringContaining('from the listed host') });
    expect(refused.json.status).toBe('completed');
    expect(refused.json.text).not.toContain('from the listed host');
    const exists = 'import os; os.path.exists("same.txt")';
    expect([await cella.run(anns.id, exists), await cella.run(doras.id, exists)]).toMatchObject([
      { value: true },
      { value: false },
    ]);
    expect([keysOf('by ann'), keysOf('by dora'), keysOf('by bob')]).toEqual([[ANOTHER_KEY], [A_THIRD_KEY], []]);
  });

  test('in another user’s session uses the key of the user who prompts, and fails if that user has none', async () => {
    const [owner, guest] = await Promise.all([cella.user('owner', 'member'), cella.user('guest', 'member')]);
    await setKey(cella, ANOTHER_KEY, owner);
    const { id } = await cella.session({ agentKey: 'lent', shares: [{ user: 'guest', right: 'use' }] }, owner);
    model.seen.length = 0;
    const early = await prompt(cella, id, 'too early #plain', { token: guest });
    expect(early).toMatchObject({ status: 403, json: { error: { code: 'CREDENTIAL_MISSING' } } });
    expect(early.json.error?.message).toContain('guest');
    await setKey(cella, A_THIRD_KEY, guest);
    const owners = prompt(cella, id, 'by the owner #plain', { token: owner });
    await until(cella, id, ({ type }) => type === 'turn_started');
    const guests = prompt(cella, id, `by the guest #write ${INSIDE}/lent.txt`, { token: guest });
    const asked = await until(cella, id, ({ type }) => type === 'permission_requested');
    const queued = prompt(cella, id, 'too late #plain', { token: guest });
    await until(cella, id, ({ type }) => type === 'turn_queued', { after: asked.at(-1)?.seq ?? 0 });
    // It goes in the middle of one turn, and while another waits.
    expect((await cella.call('DELETE /v1/credentials/anthropic', { token: guest })).status).toBe(204);
    await decide(cella, id, { decision: 'allow' }, { token: guest });
    expect((await owners).json.status).toBe('completed');
    for (const { json } of await Promise.all([guests, queued])) {
      expect(json).toMatchObject({ status: 'failed', error: { code: 'CREDENTIAL_MISSING' } });
      expect(json.error?.message).toContain('guest');
    }
    expect(keysOf('by the guest')).toEqual([A_THIRD_KEY]);
    expect(keysOf('by the owner', ['by the guest'])).toEqual([ANOTHER_KEY]);
    expect([...keysOf('too early'), ...keysOf('too late')]).toEqual([]);
    const { json: used } = await cella.call<{ days: { calls: number }[] }>('GET /v1/usage', { token: guest });
    expect(used.days).toMatchObject([{ calls: model.seen.filter(({ key }) => key === A_THIRD_KEY).length }]);
  });

  test('that reaches its budget ends with that error, and the usage is available', async () => {
    const token = await cella.user('carl', 'member');
    await setKey(cella, ANOTHER_KEY, token);
    await cella.call('PATCH /v1/users/carl', { body: { quotas: { modelTokensPerDay: 10 } } });
    const { id } = await cella.session({ agentKey: 'spends' }, token);
    expect((await prompt(cella, id, '#plain', { token })).json.status).toBe('completed');
    const { json } = await prompt(cella, id, '#plain', { token });
    expect(json).toMatchObject({
      status: 'failed',
      error: { code: 'BUDGET_EXCEEDED', message: expect.stringContaining('10 tokens of models a day') },
    });
    const { json: used } = await cella.call<{ days: { calls: number; output: number }[] }>('GET /v1/usage', { token });
    expect(used.days).toMatchObject([{ calls: expect.any(Number), output: expect.any(Number) }]);
    const { json: ofSession } = await cella.call(`GET /v1/sessions/${id}/usage`, { token });
    expect(ofSession.output).toBe(used.days[0]?.output);
    const { text } = await cella.call('GET /metrics');
    expect(text).toMatch(/^cella_model_tokens_total\{kind="output"\} [1-9]/m);
  });

  test('reaches a listed host through the proxy, and refused hosts are reported with the turn', async () => {
    const { host } = await listedHost();
    const { id } = await cella.session({ sandbox: { network: { allow: [host] } } });
    const fetching = (url: string) => `#run ${fetchIn(url)}`;
    const reached = await prompt(cella, id, fetching(`http://${host}/`), { mode: 'bypass' });
    expect(reached.json).toMatchObject({ status: 'completed', text: expect.stringContaining('from the listed host') });
    const { json } = await prompt(cella, id, fetching('http://other.example/'), { mode: 'bypass' });
    expect(json).toMatchObject({ status: 'completed', text: expect.stringContaining('403') });
    const denied = (await eventsOf(cella, id)).filter(({ type }) => type === 'network_denied');
    expect(denied).toMatchObject([{ host: 'other.example', port: 80, reason: 'not_listed', turn: json.id }]);
  });

  test('continues if the gateway restarts in the middle of an answer, reports the retry, and the next prompt works', async () => {
    const { id } = await cella.session({ agentKey: 'gateway' });
    const hangs = model.hangs();
    const cut = prompt(cella, id, '#hangonce restart');
    await hangs;
    await (await pool.runner(id))?.socket.restart();
    const { json } = await cut;
    expect(json).toMatchObject({ status: 'completed', text: 'Hello from the stand-in model.' });
    const notices = (await eventsOf(cella, id)).filter(({ type }) => type === 'agent_notice');
    expect(notices).toMatchObject([{ text: expect.stringContaining('could not be reached; trying again') }]);
    const { json: next } = await prompt(cella, id, '#remember');
    expect(next).toMatchObject({ status: 'completed', conversation: json.conversation });
    expect(next.text).toContain('#hangonce');
  });

  test('with keys just in time: the key reaches only the model, and is in no argument, variable or event', async () => {
    model.seen.length = 0;
    const given = await agentServer({
      modelUrl: model.url,
      gateway: { providers: [`anthropic=${model.url}`], keys: 'just-in-time' },
      runner,
      programs,
    });
    await setKey(given, ANOTHER_KEY);
    const { id } = await given.session({ agentKey: 'key', sandbox: { network: 'host' } });
    const writing = prompt(given, id, `#write ${INSIDE}/a.txt x`);
    await until(given, id, ({ type }) => type === 'permission_requested');
    const all = descendants(process.pid);
    expect(all.some(({ command }) => command.includes('claude-agent-sdk'))).toBe(true);
    const holders = all.filter(({ pid, command }) => `${command}${environOf(pid)}`.includes(ANOTHER_KEY));
    expect(holders).toEqual([]);
    await decide(given, id, { decision: 'allow' });
    expect((await writing).json.status).toBe('completed');
    expect(new Set(model.seen.map(({ key }) => key))).toEqual(new Set([ANOTHER_KEY]));
    expect(JSON.stringify(await eventsOf(given, id))).not.toContain(ANOTHER_KEY);
  });

  test('with quotes, line breaks and $(…) in every name takes each unchanged, or refuses it', async () => {
    const odd = '"a" \'b\' $(touch pwned) `touch pwned`; touch pwned\n\u001b[2J-rf ü🐍';
    // What the stand-in model takes as one word.
    const file = 'it\'s"$(touch$IFS"pwned")`x`;&|-rf';
    const encoded = encodeURIComponent(odd);
    const { id, ...made } = await cella.session({ agentKey: odd, name: odd, labels: { of: odd } });
    expect(made).toMatchObject({ agentKey: odd, name: odd, labels: { of: odd } });
    const asking = `POST /v1/sessions/${id}/prompt`;
    for (const [call, body] of [
      [`PUT /v1/profiles/${encoded}`, {}],
      ['PUT /v1/profiles/x', { rules: { [odd]: 'x' } }],
      ['PUT /v1/profiles/x', { mcpServers: { [odd]: { type: 'stdio', argv: ['true'] } } }],
      ['PUT /v1/profiles/x', { subagents: { x: { description: 'x', prompt: 'x', model: odd } } }],
      [`PUT /v1/credentials/${encoded}`, { value: ANOTHER_KEY }],
      ['POST /v1/sessions', { labels: { [odd]: 'x' } }],
      ['POST /v1/users', { name: odd, role: 'member' }],
      ['POST /v1/permission-rules', { tool: 'Bash', pattern: odd }],
      [asking, { prompt: '#plain', agent: odd }],
      [asking, { prompt: '#plain', profile: odd }],
      ...[odd, '$(touch)', '--dangerously-skip-permissions'].map((name) => [asking, { prompt: '#plain', model: name }]),
      ...[odd, 'Read,Bash', '--add-dir', ''].map((name) => [asking, { prompt: '#plain', tools: [name] }]),
      [asking, { prompt: '#plain', tools: Array(101).fill('Read') }],
    ] as const) {
      const { status, json } = await cella.call<{ error: { code: string } }>(String(call), { body });
      expect
        .soft([call, body, status, json.error?.code])
        .toEqual([call, body, 400, expect.stringMatching(/^INVALID_/)]);
    }
    const profile = { files: { [odd]: 'of the profile', [`deep ${odd}/${odd}`]: 'deep' }, rules: { plain: odd } };
    expect((await cella.call('PUT /v1/profiles/odd', { body: profile })).status).toBe(200);
    const upload = `PUT /v1/sessions/${id}/files/content?path=${encodeURIComponent(`${odd} too`)}`;
    expect((await cella.call(upload, { body: 'sent' })).status).toBeLessThan(300);
    model.seen.length = 0;
    const more = { mode: 'auto-edit', profile: 'odd', model: 'claude-sonnet-4-5[1m]' };
    const { json } = await prompt(cella, id, `#write ${INSIDE}/${file} by the agent`, more);
    expect(json).toMatchObject({ status: 'completed', model: more.model });
    expect(new Set(model.seen.map((call) => call.model))).toEqual(new Set(['claude-sonnet-4-5']));
    const all = `import os
{os.path.relpath(os.path.join(place, name)): open(os.path.join(place, name)).read() for place, _, names in os.walk(".") for name in names}`;
    expect((await cella.run(id, all)).value).toEqual({
      [odd]: 'of the profile',
      [`deep ${odd}/${odd}`]: 'deep',
      [`${odd} too`]: 'sent',
      [file]: 'by the agent\n',
    });
    expect(readdirSync(dataDir, { recursive: true }).filter((path) => basename(String(path)) === 'pwned')).toEqual([]);
    const rule = await cella.call('POST /v1/permission-rules', { body: { tool: odd, pattern: 'x' } });
    expect(rule).toMatchObject({ status: 201, json: { tool: odd } });
    const env = { CELLA_URL: cella.url, CELLA_TOKEN: cella.token };
    for (const words of [
      ['sessions', 'list'],
      ['sessions', 'show', id],
      ['sessions', 'logs', id],
      ['permissions', 'rules', 'list'],
    ]) {
      const { code, out } = await runHere(words, dataDir, { env });
      expect.soft([words, code, out.includes('$(touch pwned)')]).toEqual([words, 0, true]);
      // No name moves the cursor, or begins a line of its own.
      expect.soft([words, out.includes('\u001b[2J'), /^-rf/m.test(out)]).toEqual([words, false, false]);
    }
    expect((await cella.call(`DELETE /v1/permission-rules/${rule.json.id}`)).status).toBe(204);
  });

  test('has only the requested tools, by each way to prompt, also after a wait', async () => {
    await using client = await connect({ url: cella.url, token: cella.token });
    await using session = await client.open({ agentKey: 'tools' });
    const env = { CELLA_URL: cella.url, CELLA_TOKEN: cella.token };
    const words = ['prompt', 'by CLI #plain', '--session', session.id, '--tools', 'Edit, Write'];
    model.seen.length = 0;
    const first = prompt(cella, session.id, 'by all #plain');
    await until(cella, session.id, ({ type }) => type === 'turn_started');
    const waiting = [
      prompt(cella, session.id, `by REST #write ${INSIDE}/not.txt`, { tools: ['Read'], mode: 'bypass' }),
      session.prompt('by client #plain', { tools: [] }).turn,
      runHere(words, dataDir, { env }),
    ] as const;
    expect((await first).json.status).toBe('completed');
    const [rest, ofClient, cli] = await Promise.all(waiting);
    expect([rest.json.status, ofClient.status, cli.code]).toEqual(['completed', 'completed', 0]);
    // Nor has a model any other that asks for it all the same.
    expect(rest.json.text).toContain('No such tool available: Write');
    expect(ownToolsOf('by all')).toEqual(expect.arrayContaining(['Bash', 'Edit', 'Read', 'Write']));
    expect(ownToolsOf('by REST')).toEqual(['Read']);
    expect(ownToolsOf('by client')).toEqual([]);
    expect(ownToolsOf('by CLI')).toEqual(['Edit', 'Write']);
    const wrong = await runHere([...words.slice(0, -1), 'Read,--add-dir'], dataDir, { env });
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('is not a list of tools')]);
  });

  test('works with the client: events as they happen, and the outcome', async () => {
    await using client = await connect({ url: cella.url, token: cella.token });
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
