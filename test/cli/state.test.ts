/** What `cella` keeps from one command to the next: names, checkpoints, forks, and who holds them. */

import { randomUUID } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { storageKeyOf } from '../../src/server/ids.ts';
import { FileStorage } from '../../src/storage/file/file-storage.ts';
import { runHere } from '../support/cli/cli-here.ts';
import { Cella, type Started } from '../support/cli/command.ts';

const cella = new Cella();
afterAll(() => cella[Symbol.dispose]());

/** Each test has an agent of its own. */
let agent = '';
beforeEach(() => {
  agent = `agent ${randomUUID()}`;
});

const here = (...words: string[]) => runHere(words, cella.dataDir);
const run = (code: string, ...flags: string[]) => here('run', '--key', agent, ...flags, '-c', code);
/** In a process of its own. */
const runThere = (code: string, ...flags: string[]) => cella.run(['run', '--key', agent, ...flags, '-c', code]);
const checkpoints = (command: string, ...words: string[]) => here('checkpoints', command, ...words, '--key', agent);

/** A process that holds the agent until the test is over. */
async function hold(): Promise<Started> {
  const owner = cella.start(['repl', '--key', agent]);
  onTestFinished(async () => {
    owner.child.stdin?.end();
    await owner.ended;
  });
  owner.type('"here"\n');
  await owner.says('here');
  return owner;
}

describe('variables of an agent key', () => {
  it('are restored at the next run, with functions, classes and imports', async () => {
    expect(await runThere('x = 41')).toEqual({ code: 0, out: '', err: '' });
    expect(await runThere('x + 1')).toEqual({ code: 0, out: '42\n', err: '' });
    await runThere('import math\nclass Box:\n    side = 2\ndef area(box): return math.pow(box.side, 2)');
    expect(await runThere('area(Box())')).toEqual({ code: 0, out: '4.0\n', err: '' });
  });

  it('belong to no other agent key', async () => {
    await runThere('x = 41');
    const other = await cella.run(['run', '--key', `${agent} too`, '-c', '"x" in globals()']);
    expect(other).toEqual({ code: 0, out: 'False\n', err: '' });
  });

  it('that could not be saved are reported once, with the reason', async () => {
    await runThere('import socket\nx, s = 1, socket.socket()');
    expect(await runThere('x')).toEqual({
      code: 0,
      out: '1\n',
      err: expect.stringMatching(/^cella: s could not be restored: .*socket.*\n$/),
    });
    expect(await runThere('x')).toEqual({ code: 0, out: '1\n', err: '' });
  });

  it('are those of the last save after the kernel died', async () => {
    await runThere('x = 1');
    expect(await runThere('x = 2\nimport os; os.kill(os.getpid(), 9)')).toMatchObject({ code: 137 });
    expect(await runThere('x')).toEqual({ code: 0, out: '1\n', err: '' });
  });

  it('are listed for programs, with what was restored', async () => {
    await runThere('x = 1');
    const { out } = await runThere('x', '--json');
    expect(JSON.parse(out)).toMatchObject({ type: 'result', execution: 2, resumed: { restored: ['x'], lost: [] } });
  });
});

describe('--transaction', () => {
  it('rollback_always keeps nothing', async () => {
    await run('x = [1]');
    const { code, out, err } = await run('x.append(2); x', '--transaction', 'rollback_always');
    expect([code, out, err]).toEqual([0, '[1, 2]\n', expect.stringContaining('were undone')]);
    expect((await run('x')).out).toBe('[1]\n');
  });

  it.each(['rollback_on_failure', 'commit_on_success'])('%s keeps what succeeds', async (policy) => {
    await run('x = [1]');
    expect(await run('x.append(2)\n1 / 0', '--transaction', policy)).toMatchObject({ code: 1 });
    expect((await run('x')).out).toBe('[1]\n');
    expect(await run('x.append(3)', '--transaction', policy)).toEqual({ code: 0, out: '', err: '' });
    expect((await run('x')).out).toBe('[1, 3]\n');
  });

  it('commit_always keeps what failed', async () => {
    await run('x = 1\n1 / 0', '--transaction', 'commit_always');
    expect((await run('x')).out).toBe('1\n');
  });

  it('reports to programs what happened to the changes', async () => {
    const { out } = await run('x = 1', '--json', '--transaction', 'rollback_always');
    expect(JSON.parse(out)).toMatchObject({ status: 'ok', transaction: 'rolled_back' });
  });
});

describe('cella checkpoints', () => {
  it('creates one, shows it, and restores it', async () => {
    await run('import socket\nx = 1');
    const made = await checkpoints('create', 'before');
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining('2 variables'), err: '' });
    await run('x = 2; later = 3');
    const { out: table } = await checkpoints('list');
    expect(table).toMatch(/^NAME +ID +CREATED +CELLS +VARIABLES +SIZE +PYTHON\n/);
    expect(table).toMatch(/\nbefore +[0-9a-f]{8} .* ago +1 +2 .* 3\.\d+\.\d+\n/);
    const { out: shown } = await checkpoints('show', 'before');
    expect(shown).toMatch(/^before\n {2}id {9}\S{36}\n/);
    expect(shown).toMatch(/created .*after execution 1\n[\s\S]*variables +2: socket, x\n {2}lost +0\n$/);
    const restored = await checkpoints('restore', 'before');
    expect(restored).toMatchObject({ code: 0, out: expect.stringContaining('2 variables restored'), err: '' });
    expect((await run('x, "later" in globals()')).out).toBe('(1, False)\n');
    expect(await checkpoints('delete', 'before')).toMatchObject({ code: 0, err: '' });
    expect((await checkpoints('list')).out).not.toContain('before');
  });

  it('accepts an id, or the beginning of one, and prints everything for programs', async () => {
    await run('x = 1');
    const made = JSON.parse((await checkpoints('create', 'one', '--json')).out);
    expect(made).toMatchObject({
      agentKey: agent,
      checkpoint: { name: 'one', kind: 'durable', saved: ['x'], lost: [] },
    });
    const { id } = made.checkpoint;
    await run('x = 2');
    const listed = JSON.parse((await checkpoints('list', '--json')).out);
    expect(listed.checkpoints.map(({ automatic }: { automatic: boolean }) => automatic)).toEqual([true, false, true]);
    expect(JSON.parse((await checkpoints('show', id, '--json')).out).checkpoint).toEqual(listed.checkpoints[1]);
    const back = JSON.parse((await checkpoints('restore', id.slice(0, 8), '--json')).out);
    expect(back).toMatchObject({ agentKey: agent, checkpoint: { id }, restored: ['x'], lost: [] });
    expect((await run('x')).out).toBe('1\n');
    expect(JSON.parse((await checkpoints('delete', id, '--json')).out)).toEqual({ agentKey: agent, deleted: id });
  });

  it('restores the newest of several with the same name', async () => {
    for (const value of [1, 2]) {
      await run(`x = ${value}`);
      await checkpoints('create', 'same');
    }
    await run('x = 3');
    await checkpoints('restore', 'same');
    expect((await run('x')).out).toBe('2\n');
  });

  it.each(['show', 'restore', 'delete'])('%s says that no checkpoint has that name', async (command) => {
    await run('x = 1');
    const { code, err } = await checkpoints(command, 'nothing');
    expect([code, err]).toEqual([1, expect.stringMatching(/no checkpoint "nothing" of .*\n.*checkpoints list/)]);
    expect(JSON.parse((await checkpoints(command, 'nothing', '--json')).out).code).toBe('CHECKPOINT_NOT_FOUND');
  });

  it('creates no agent key for a mistyped name', async () => {
    const { code, err } = await checkpoints('create', 'before');
    expect([code, err]).toEqual([2, expect.stringContaining('There is no kernel')]);
    expect(await checkpoints('list')).toMatchObject({
      code: 0,
      out: '',
      err: expect.stringContaining('no checkpoints'),
    });
    expect((await here('ps', '--json')).out).not.toContain(agent);
  });

  it('also lists while another process holds the agent key, and then changes nothing', async () => {
    await run('x = 1');
    await checkpoints('create', 'before');
    await hold();
    expect(await checkpoints('list')).toMatchObject({ code: 0, out: expect.stringContaining('before'), err: '' });
    const { code, err } = await checkpoints('restore', 'before');
    expect([code, err]).toEqual([1, expect.stringContaining('--key')]);
  });

  it('reports a damaged one, and deletes it', async () => {
    await run('x = 1');
    const { id } = JSON.parse((await checkpoints('create', 'bad', '--json')).out).checkpoint;
    const all = join(cella.dataDir, 'checkpoints');
    const folder = readdirSync(all).find((name) => !name.startsWith('.') && readdirSync(join(all, name)).includes(id));
    writeFileSync(join(all, folder ?? '', id, 'manifest.json'), '{');
    const { out, err } = await checkpoints('list');
    expect(out).not.toContain('bad');
    expect(err).toContain(`${id} is damaged`);
    expect(await checkpoints('delete', id)).toMatchObject({ code: 0, err: '' });
    expect((await checkpoints('list')).err).toBe('');
  });
});

describe('cella fork', () => {
  const fork = (...words: string[]) => here('fork', ...words, '--key', agent);

  it('gives another agent key the same variables, and both continue independently', async () => {
    const other = `${agent} too`;
    await run('x = [1]\nopen("file.txt", "w").write("shared")');
    const forked = await fork(other);
    expect(forked).toMatchObject({ code: 0, out: expect.stringContaining(`cella chat --key '${other}'`), err: '' });
    const there = (code: string) => here('run', '--key', other, '-c', code);
    expect((await there('x.append(2); x, open("file.txt").read()')).out).toBe("([1, 2], 'shared')\n");
    expect((await run('x')).out).toBe('[1]\n');
    expect((await there('x')).out).toBe('[1, 2]\n');
  });

  it('reports to programs what was saved', async () => {
    await run('x = 1');
    const { out } = await fork(`${agent} too`, '--json');
    expect(JSON.parse(out)).toMatchObject({ agentKey: agent, fork: `${agent} too`, save: { saved: ['x'], lost: [] } });
  });

  it('replaces no agent key without a flag', async () => {
    const other = `${agent} too`;
    await run('x = 1');
    await here('run', '--key', other, '-c', 'x = "mine"');
    const refused = await fork(other);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('--replace') });
    expect((await here('run', '--key', other, '-c', 'x')).out).toBe("'mine'\n");
    expect(await fork(other, '--replace')).toMatchObject({ code: 0 });
    expect((await here('run', '--key', other, '-c', 'x')).out).toBe('1\n');
  });

  it('refuses an agent key that does not exist', async () => {
    expect(await fork('other')).toMatchObject({ code: 2, err: expect.stringContaining('There is no kernel') });
  });
});

describe('cella ps', () => {
  const ps = async () => JSON.parse((await here('ps', '--json')).out);

  it('shows live kernels with their owner, and hibernated ones', async () => {
    await run('x = 1');
    const sleeping = { agentKey: agent, state: 'hibernated', executions: 1, lastSave: { id: expect.any(String) } };
    const { dataDir, kernels } = await ps();
    expect(dataDir).toBe(cella.dataDir);
    expect(kernels).toContainEqual(expect.objectContaining({ ...sleeping, lastSave: expect.any(Object) }));
    const owner = await hold();
    const look = async () =>
      (await ps()).kernels.find(({ agentKey }: { agentKey: string }) => agentKey === agent) ?? {};
    // Others are told a moment after a session is open.
    await expect.poll(look, { timeout: 30_000 }).toMatchObject({ state: 'live', pid: expect.any(Number) });
    const live = await look();
    expect(live).toMatchObject({ state: 'live', owner: { pid: owner.child.pid }, pid: expect.any(Number) });
    expect(live.memoryBytes).toBeGreaterThan(1_000_000);
    const { out } = await here('ps');
    expect(out).toMatch(/^KEY +STATE +PID +OWNER +MEMORY +IDLE +LAST SAVE +CELLS/);
    expect(out).toMatch(new RegExp(`\n${agent} +live +${live.pid} +${owner.child.pid} +\\S+ MB `));
  });

  it('shows the kernels of a server’s users by the keys that the users see, with their owners', async () => {
    const dataDir = join(cella.temporary, 'served');
    const storage = await FileStorage.open(dataDir);
    const put = (agentKey: string, more = {}) => {
      const at = { createdAt: 0, updatedAt: 0, lastUsedAt: Date.now() };
      return storage.records.put(agentKey, {
        agentKey,
        ...at,
        executions: 1,
        state: 'hibernated',
        history: [],
        ...more,
      });
    };
    const analyst = storageKeyOf('ada~abcdefghijkl', 'team/analyst');
    await put('own');
    await put(analyst);
    await put(storageKeyOf('ada~abcdefghijkl', 'copy'), { workspaceOf: analyst });
    await storage.close();
    const { out } = await here('ps', '--data', dataDir);
    const rows = out.split('\n').map((line) => line.trim().split(/ {2,}/));
    expect(rows).toMatchObject([
      ['KEY', 'USER', 'STATE', 'IDLE', 'CELLS', 'FORK OF'],
      ['own', 'hibernated', expect.any(String), '1'],
      ['team/analyst', 'ada', 'hibernated', expect.any(String), '1'],
      ['copy', 'ada', 'hibernated', expect.any(String), '1', 'team/analyst'],
      [''],
    ]);
  });

  it('says so if there is none', async () => {
    const { code, out, err } = await here('ps', '--data', join(cella.temporary, 'none'));
    expect([code, out]).toEqual([0, '']);
    expect(err).toContain('There are no kernels in');
  });
});
