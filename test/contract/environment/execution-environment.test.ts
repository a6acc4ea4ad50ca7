/** What a session's agent runs in: prepared, prompted, read and watched through the runner's own commands. */

import { chmod, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Environment } from '../../../src/environments/environment.ts';
import { ExecutionEnvironment, type Query, type QueryEvent } from '../../../src/environments/execution-environment.ts';
import { LocalEnvironment } from '../../../src/environments/local/local-environment.ts';
import type { RunnerCommandLine } from '../../../src/environments/run-runner-command.ts';
import { SandboxEnvironment } from '../../../src/environments/sandbox-environment.ts';
import type { AgentProfile } from '../../../src/protocol/agent-profile.ts';
import { openAgentSandbox } from '../../../src/session/agent-sandbox.ts';
import type { SessionOptions } from '../../../src/session/session-options.ts';
import { bundleRunners } from '../../support/agents/runner.ts';
import { type Step, script } from '../../support/agents/scripted-agent.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

const profile: AgentProfile = {
  systemPrompt: 'Be "brief".\n$(x)',
  rules: { style: '# Style' },
  files: { 'notes/first.md': 'from the profile', 'binary.dat': { base64: '/wA=' } },
};
type Kind = 'local' | 'sandbox' | 'docker';
const kinds: readonly Kind[] = canRunDocker ? ['local', 'sandbox', 'docker'] : ['local', 'sandbox'];
let runners: string;
beforeAll(async () => {
  runners = await scratchFolder();
  await bundleRunners(runners);
  // As an installed one: the user of a container is another, and reads it too.
  await chmod(runners, 0o755);
});

async function openPlace(kind: Kind): Promise<{ primitive: Environment; runner: string[] }> {
  const folder = await scratchFolder();
  if (kind === 'local') {
    const [workspace, home] = [join(folder, 'workspace'), join(folder, 'home')];
    for (const path of [workspace, home]) await mkdir(path);
    const primitive = await LocalEnvironment.create({ kind, workspace, home, app: runners });
    return { primitive, runner: [process.execPath, join(runners, 'scripted-runner.mjs')] };
  }
  const container: SessionOptions =
    kind === 'docker' ? { executor: 'container', engine: await sharedEngineWithImage() } : {};
  const folders = { node: dirname(process.execPath), runner: runners };
  const open = () => openAgentSandbox({ session: { dataDir: folder, ...container }, folders });
  const primitive = await SandboxEnvironment.create({ open });
  const app = primitive.getBasePaths().APP_DIR;
  return { primitive, runner: [`${app}/node/node`, `${app}/runner/scripted-runner.mjs`] };
}

const asked = (steps: Step[], more: Partial<Query> = {}): Query => ({
  turn: 'trn_0123456789abcdef',
  prompt: script(...steps),
  mode: 'ask',
  timeoutMs: 60_000,
  access: { baseUrl: 'http://127.0.0.1:9', key: 'cst_stand-in' },
  ...more,
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const said = (events: readonly QueryEvent[]) =>
  events.flatMap((line) => (line.type === 'event' && line.event.type === 'item_completed' ? [line.event.text] : []));

describe.each(kinds)('an execution environment, %s', (kind) => {
  let environment: ExecutionEnvironment;
  let place: Awaited<ReturnType<typeof openPlace>>;
  const create = (agent = 'scripted', agentProfile = profile, runner?: RunnerCommandLine) =>
    ExecutionEnvironment.create({
      sessionId: 'ses_0123456789abcdef',
      agent,
      agentProfile,
      environmentOptions: {
        open: async () => place.primitive,
        runner: runner ?? { argv: place.runner, programDir: '/tmp' },
      },
    });
  beforeAll(async () => {
    place = await openPlace(kind);
    environment = await create();
  });
  afterAll(() => environment?.cleanup());
  const query = (steps: Step[], more: Partial<Query> = {}) => all(environment.executeQuery(asked(steps, more)));

  it('prepares the workspace, and keeps existing files', async () => {
    const workspaceFiles = [
      { path: 'src/a.txt', content: 'a' },
      { path: '../b', content: 'b' },
    ];
    const prepared = await environment.prepareSession({ workspaceFiles });
    expect(prepared).toMatchObject({ transcript: 'none' });
    expect(prepared.files.map(({ path, ok }) => [path, ok])).toEqual([
      ['notes/first.md', true],
      ['binary.dat', true],
      ['src/a.txt', true],
      ['../b', false],
    ]);
    expect([...(await environment.environment.readBytes('binary.dat'))]).toEqual([255, 0]);
    await environment.environment.writeFile('notes/first.md', 'by a person');
    expect((await environment.prepareSession()).files).toEqual([]);
    expect(await environment.environment.readFile('notes/first.md')).toBe('by a person');
    expect((await environment.getWorkspaceFiles()).map(({ path }) => path)).toEqual([
      'binary.dat',
      'notes/first.md',
      'src/a.txt',
    ]);
  });

  it('keeps the newer of two transcripts: an old one overwrote a newer one', async () => {
    const prepare = (text: string) => environment.prepareSession({ transcript: { conversation: 'talk', text } });
    expect(await environment.readSessionTranscript('talk')).toBeUndefined();
    expect(await prepare('one\ntwo\n')).toMatchObject({ transcript: 'written' });
    expect(await prepare('one\n')).toMatchObject({ transcript: 'kept' });
    expect(await environment.readSessionTranscript('talk')).toBe('one\ntwo\n');
    // At the same time as well.
    const longer = `one\ntwo\n${'\u{1f40d}'.repeat(600_000)}\n`;
    const both = await Promise.all([prepare(longer), prepare('one\ntwo\nthree\n')]);
    expect(both).toMatchObject([{ transcript: 'written' }, { transcript: 'kept' }]);
    expect((await environment.readSessionTranscript('talk')) === longer).toBe(true);
  });

  it('does not wait for a transcript that is a pipe, or read one without end', async () => {
    const { HOME_DIR } = environment.getBasePaths();
    const code = `mkfifo "$0/pipe" && echo "A long story" > "$0/endless"`;
    const made = await environment.environment.exec(['/bin/sh', '-c', code, HOME_DIR]);
    expect(await made.exited).toEqual({ code: 0 });
    const runner = { argv: place.runner, programDir: '/tmp' };
    const hasty = await create('scripted', {}, { ...runner, limits: { commandMs: 500 } });
    const small = await create('scripted', {}, { ...runner, limits: { transcriptCharacters: 10 } });
    await expect(hasty.readSessionTranscript('pipe')).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    await expect(small.readSessionTranscript('endless')).rejects.toMatchObject({ code: 'TOO_LARGE' });
  });

  it('streams the events of a query, the end last', async () => {
    const events = await query([{ say: 'hello' }, { show: 'profile' }, { show: 'cwd' }, { show: 'env' }]);
    expect(events.at(-1)).toMatchObject({ type: 'ended', status: 'completed', usage: { input: 1, output: 2 } });
    const [hello, shown = '', cwd, env = ''] = said(events);
    expect(hello).toBe('hello');
    expect(JSON.parse(shown)).toEqual({ systemPrompt: profile.systemPrompt, rules: profile.rules });
    expect(JSON.parse(cwd ?? '')).toBe(environment.getBasePaths().WORKSPACE_DIR);
    expect(env).not.toMatch(/VITEST|NODE_OPTIONS|cst_/);
  });

  it('asks for permissions, and allows nothing if nobody answers', async () => {
    const answers: [string, Awaited<ReturnType<NonNullable<Query['permit']>>>][] = [
      ['Write', { allowed: true }],
      ['Bash', { allowed: false, reason: 'not "now"\n$(x)' }],
    ];
    const permit: Query['permit'] = async ({ tool }) => {
      const found = answers.find(([name]) => name === tool);
      if (!found) throw new Error('nobody');
      return found[1];
    };
    const steps = [{ ask: 'Write' }, { ask: 'Bash' }, { ask: 'Other' }];
    const heard = said(await query(steps, { permit })).map((text) => JSON.parse(text ?? ''));
    expect(heard).toMatchObject([{ allowed: true }, { allowed: false, reason: 'not "now"\n$(x)' }, { allowed: false }]);
    expect(JSON.parse(said(await query([{ ask: 'Write' }]))[0] ?? '')).toMatchObject({ allowed: false });
  });

  it('cancels a query, even while a permission is pending', async () => {
    for (const steps of [
      [{ say: 'x' }, { wait: true }],
      [{ say: 'x' }, { ask: 'Write' }, { wait: true }],
    ] as Step[][]) {
      const stop = new AbortController();
      const events: QueryEvent[] = [];
      const more = { signal: stop.signal, permit: () => new Promise<never>(() => stop.abort()) };
      for await (const line of environment.executeQuery(asked(steps, more))) {
        events.push(line);
        if (steps.length === 2 && said(events).length === 1) stop.abort();
      }
      expect(events.at(-1)).toMatchObject({ type: 'ended', status: 'cancelled' });
    }
  });

  it('reports a failed turn as its end, and a dead runner as an error', async () => {
    expect((await query([{ fail: 'overloaded' }])).at(-1)).toMatchObject({
      type: 'ended',
      status: 'failed',
      error: { code: 'PROVIDER_FAILED' },
    });
    const instead = async (code: string) => {
      const runner = { argv: ['python3', '-c', `import os, sys\n${code}`], programDir: '/tmp' };
      const other = await create('scripted', profile, runner);
      return await all(other.executeQuery(asked([])));
    };
    const event = JSON.stringify({
      type: 'event',
      sequence: 1,
      event: { type: 'agent_notice', turn: 'trn_0123456789abcdef', text: 'x' },
    });
    const say = `print('${event}', flush=True)`;
    await expect(instead(`${say}\nos.kill(os.getpid(), 9)`)).rejects.toMatchObject({
      code: 'RUNNER_GONE',
      details: { signal: 'SIGKILL' },
    });
    await expect(instead(`${say}\nsys.exit(3)`)).rejects.toMatchObject({ code: 'RUNNER_GONE', details: { code: 3 } });
    await expect(instead('pass')).rejects.toMatchObject({ code: 'RUNNER_GONE' });
    await expect(instead(`print('{"type": "ev')`)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
    await expect(instead(`print('{"type": "other"}')`)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
    await expect(instead('sys.stdout.write("x" * 9_000_000)')).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  });

  it('takes a prompt of 1 MB, and refuses one that is too long for a line', async () => {
    const long = 'x"\n'.repeat(350_000);
    expect(said(await query([{ say: long }]))[0] === long).toBe(true);
    await expect(query([{ say: 'x'.repeat(9_000_000) }])).rejects.toMatchObject({ code: 'TOO_LARGE' });
  });

  it('reports changes in the workspace and in a transcript', async () => {
    await using stack = new AsyncDisposableStack();
    const stop = new AbortController();
    stack.defer(() => stop.abort());
    const files = await environment.watchWorkspaceFiles({ signal: stop.signal });
    const texts = await environment.watchSessionTranscriptChanges('talk two', { signal: stop.signal });
    await environment.environment.writeFile('seen.txt', 'x');
    for await (const { path } of files) if (path === 'seen.txt') break;
    await environment.prepareSession({ transcript: { conversation: 'talk two', text: 'one\n' } });
    for await (const text of texts) {
      expect(text).toBe('one\n');
      break;
    }
  });

  it('refuses hostile names, an unknown agent, and `bypass` without isolation', async () => {
    for (const name of ['', 'a"b', 'a\nb', '$(x)', '../claude']) {
      await expect(create(name)).rejects.toMatchObject({ code: 'INVALID_NAME' });
      await expect(create('scripted', { rules: { [name]: 'x' } })).rejects.toMatchObject({ code: 'INVALID_NAME' });
    }
    const other = await create('other');
    await expect(other.prepareSession()).rejects.toMatchObject({ code: 'AGENT_UNKNOWN' });
    const everything = query([{ say: 'x' }], { mode: 'bypass' });
    if (kind === 'local') await expect(everything).rejects.toMatchObject({ code: 'BYPASS_REFUSED' });
    else expect(said(await everything)).toEqual(['x']);
  });

  it('is healthy until it is cleaned up, and its files stay', async () => {
    expect(await environment.isHealthy()).toBe(true);
    expect(environment.getId()).toBe(place.primitive.getId());
    await environment.cleanup();
    expect(await environment.isHealthy()).toBe(false);
    await expect(query([{ say: 'x' }])).rejects.toMatchObject({ code: 'ENVIRONMENT_ENDED' });
    expect(await environment.environment.readFile('notes/first.md')).toBe('by a person');
  });
});
