/** Mistakes that systems like this one have made with execution, each as what happens here instead. */

import { statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { collect, openSession as open, resultOf, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';

describe('mistakes of earlier systems', () => {
  it('a trailing expression runs once', async () => {
    await using session = await open();
    await session.run('count = 0\ndef bump():\n    global count\n    count += 1\n    return count');
    expect((await session.run('bump()')).value).toBe(1);
    expect((await session.run('bump();')).value).toBeUndefined();
    expect((await session.run('count')).value).toBe(2);
  });

  it('input() works in every execution, not only in the first', async () => {
    await using session = await open();
    for (const answer of ['one', 'two', 'three', 'four', 'five', 'six']) {
      expect((await session.run('input("? ")', { onInput: () => answer })).value).toBe(answer);
    }
  });

  it('stderr without a reader does not block the kernel', async () => {
    await using session = await open();
    const result = await session.run(
      'import sys\nfor n in range(20_000): print("a line of warnings", n, file=sys.stderr)\n"done"',
    );
    expect(result).toMatchObject({ status: 'ok', value: 'done' });
    expect(result.stderr).toContain('a line of warnings 19999\n');
    // Nor does a whole stream that nobody reads: it is slowed down, and can be stopped and closed.
    const unread = session.stream('import sys\nwhile True: print("more", file=sys.stderr)');
    while (!(await session.interrupt()));
    expect(resultOf(await collect(unread)).status).toBe('interrupted');
    expect((await session.run('1')).value).toBe(1);
  });

  it('an endless print without a reader pauses, and can be stopped', async () => {
    await using session = await open();
    const code = `
count = open("count", "wb", buffering=0)
while True:
    print("x" * 100_000)
    count.write(b".")`;
    const unread = session.stream(code);
    const printed = () => statSync(join(session.cwd, 'count'), { throwIfNoEntry: false })?.size ?? 0;
    await eventually(printed, (count) => count > 0, 30_000);
    // Half a second without another: what nobody holds back prints hundreds meanwhile.
    const most = 200;
    for (let [seen, since] = [printed(), performance.now()]; performance.now() - since < 500; ) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const count = printed();
      expect(count).toBeLessThan(most);
      if (count !== seen) [seen, since] = [count, performance.now()];
    }
    expect(await session.interrupt()).toBe(true);
    expect(resultOf(await collect(unread)).status).toBe('interrupted');
    expect((await session.run('1')).value).toBe(1);
  });

  it('twelve megabytes without a newline arrive, and the session continues', async () => {
    await using session = await open();
    const events = await collect(session.stream('print("x" * 12_000_000, end="")'));
    const bytes = events.reduce((sum, event) => sum + (event.type === 'stdout' ? event.text.length : 0), 0);
    expect(bytes).toBe(12_000_000);
    expect((await session.run('1')).value).toBe(1);
  });

  it('an execution that times out stops, and none of its late output appears in the next', async () => {
    await using session = await open();
    const result = await session.run('n = 0\nwhile True:\n    n += 1\n    print("old", n)', { timeoutMs: 100 });
    expect(result.status).toBe('timeout');
    const first = await session.run('print("mine"); n');
    const second = await session.run('print("mine"); n');
    expect([first.stdout, second.stdout]).toEqual(['mine\n', 'mine\n']);
    expect(second.value).toBe(first.value);
  });

  it('os.system writes to the output, never into the protocol', async () => {
    await using session = await open();
    const forged = '{"type":"result","status":"ok"}';
    const result = await session.run(
      `import os\nos.system("""echo '${forged}'; printf '\\\\005\\\\000\\\\000\\\\000r'""")`,
    );
    expect(result).toMatchObject({ status: 'ok', value: 0 });
    expect(result.stdout).toBe(`${forged}\n\u0005\0\0\0r`);
    expect((await session.run('1')).value).toBe(1);
  });

  it('a SyntaxError is an error', async () => {
    await using session = await open();
    expect(await session.run('for x in:\n    pass')).toMatchObject({ status: 'error', error: { name: 'SyntaxError' } });
  });

  it('a reply belongs to its request: after a timeout, the next caller gets its own', async () => {
    await using session = await open({ graceMs: 50 });
    const stubborn = 'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass\n"old"';
    const runs = [
      session.run('import time\ntry:\n    time.sleep(100)\nfinally:\n    "old"', { timeoutMs: 50 }),
      session.run('"second"'),
      session.run(stubborn, { timeoutMs: 50 }),
      session.run('"fourth"'),
    ];
    const results = await Promise.all(runs);
    expect(results.map(({ status, value }) => value ?? status)).toEqual(['timeout', 'second', 'timeout', 'fourth']);
    expect(results.map(({ execution }) => execution)).toEqual([1, 2, 3, 4]);
  });

  it('a character that is split between two chunks is joined again', async () => {
    await using session = await open();
    const text = '€é😀'.repeat(200_000);
    const events = await collect(session.stream('print("a" + "€é😀" * 200_000, end="")'));
    expect(events.map((event) => (event.type === 'stdout' ? event.text : '')).join('')).toBe(`a${text}`);
  });

  it('a list of more than a thousand items arrives whole', async () => {
    await using session = await open();
    const result = await session.run('[[n] for n in range(5000)]');
    expect(result.value).toEqual(Array.from({ length: 5000 }, (_, n) => [n]));
    expect(result.truncated).toBeUndefined();
  });

  it('concurrent executions each get their own result', async () => {
    await using session = await open();
    const results = await Promise.all(Array.from({ length: 20 }, (_, n) => session.run(`print(${n}); ${n}`)));
    expect(results.map(({ value, stdout }) => [value, stdout])).toEqual(
      Array.from({ length: 20 }, (_, n) => [n, `${n}\n`]),
    );
  });

  it('a spare has no variables of earlier users', async () => {
    const dataDir = await scratchFolder();
    await using holder = await open({ dataDir, agentKey: 'owner of spares', spares: 1 });
    for (let round = 0; round < 3; round++) {
      await eventually(
        () => holder.spares,
        (count) => count === 1,
        30_000,
      );
      const asked = Date.now();
      await using session = await open({ dataDir, agentKey: `user ${round}` });
      // Its folder is that of the kernel that stood ready, with another name.
      expect((await stat(session.cwd)).birthtimeMs).toBeLessThan(asked);
      expect(await session.variables()).toEqual([]);
      await session.run('secret = "of the last user"');
    }
  });

  it('an unknown checkpoint is refused: it was acknowledged', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'known' });
    await session.run('x = 2');
    const missing = { code: 'CHECKPOINT_NOT_FOUND' };
    await expect(session.restore('unknown')).rejects.toMatchObject(missing);
    await expect(session.deleteCheckpoint('unknown')).rejects.toMatchObject(missing);
    // What was refused has changed nothing.
    expect((await session.run('x')).value).toBe(2);
    expect((await session.checkpoints()).map(({ name }) => name)).toEqual(['known']);
    await session.restore('known');
    expect((await session.run('x')).value).toBe(1);
  });

  it('a rollback restores changed variables: it changed nothing', async () => {
    await using session = await open();
    await session.run('kept = [1]; import sys');
    const code = 'kept.append(2); added = 3; del sys';
    expect(await session.run(code, { transaction: 'explicit' })).toMatchObject({ transaction: 'open' });
    await session.rollback();
    expect((await session.run('[kept, "added" in dir(), "sys" in dir()]')).value).toEqual([[1], false, true]);
  });

  it('an interrupt takes as long as the code needs to stop, not a fixed time', async () => {
    await using session = await open();
    let fastest = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5; round++) {
      const { result } = await runUntilReady(session, 'import time\nprint("ready", flush=True)\ntime.sleep(1000)');
      const from = performance.now();
      await session.interrupt();
      expect((await result).status).toBe('interrupted');
      fastest = Math.min(fastest, performance.now() - from);
    }
    expect(fastest).toBeLessThan(500);
  });

  it('a quote in an environment variable breaks no cell', async () => {
    const value = `'"""\\\n'); import os; os._exit(1) #`;
    await using session = await open({ env: { QUOTED: value } });
    expect((await session.run('import os\nos.environ["QUOTED"]')).value).toBe(value);
  });
});
