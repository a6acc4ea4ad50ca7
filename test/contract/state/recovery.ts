import { describe, expect, it } from 'vitest';
import type { ResultEvent, Session } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, kernelPid, kill, reasons, residents } from '../../support/kernels/state.ts';
import { lacks, lacksFor } from '../../support/kernels/unsupported.ts';
import { isAlive, templateAbove } from '../../support/processes/processes.ts';
import { crashLoopContract } from './crash-loop.ts';
import { damagedSaveContract } from './recovery-damage.ts';
import { recoveryNoticeContract } from './recovery-notices.ts';

/** Nothing is saved but what the test saves. */
const NEVER = 3_600_000;

const root = process.getuid?.() === 0;

/**
 * `templated`: its kernels come from templates, which can die too, and start so fast that a rare moment can be tried often.
 * `short`: what differs from executor to executor.
 */
export function recoveryContract(open: Open, templated: boolean, short = false): void {
  describe('recovery', () => {
    deaths(open, templated);
    if (templated) deathOfTheTemplate(open);
    if (short) return;
    recoveryNoticeContract(open);
    damagedSaveContract(open);
    crashLoopContract(open);
  });
}

/** The next result of a session whose kernel was killed while it was idle: a cell that comes too early shares the death. */
async function next(session: Session, code: string): Promise<ResultEvent> {
  const result = await session.run(code);
  return result.status === 'died' ? await session.run(code) : result;
}

/** Kills a process while nothing runs. With pid 1 or the template the sandbox ends a moment later: it is waited for. */
async function killIdle(session: Session, victim: number): Promise<void> {
  const inside = residents(session).includes(victim);
  kill(victim);
  await eventually(
    () => (inside ? isAlive(victim) : session.pid !== 0),
    (lives) => !lives,
    5000,
  );
}

function deathOfTheTemplate(open: Open): void {
  it('of several sessions whose template was killed restores each session’s own variables', async () => {
    const dataDir = await scratchFolder();
    const sessions = await Promise.all([1, 2, 3].map((n) => open({ dataDir, agentKey: `agent ${n}` })));
    await Promise.all(sessions.map((session, n) => session.run(`x = ${n}`)));
    await Promise.all(sessions.map((session) => session.save()));
    const kernels = sessions.map(({ pid }) => pid);
    kill(templateAbove(kernels[0] ?? 0));
    // One that still lives would answer by itself.
    await eventually(
      () => sessions.some(({ pid }) => pid !== 0) || kernels.some(isAlive),
      (lives) => !lives,
      5000,
    );
    const results = await Promise.all(sessions.map((session) => next(session, 'x')));
    expect(results.map(({ value, recovered }) => [value, recovered?.restored])).toEqual([
      [0, ['x']],
      [1, ['x']],
      [2, ['x']],
    ]);
  });
}

function deaths(open: Open, templated: boolean): void {
  const byCode: [name: string, code: string, cause: object][] = [
    ['os._exit', 'import os; os._exit(7)', { code: 'KERNEL_DIED', exitCode: 7 }],
    ['SIGKILL', 'import os; os.kill(os.getpid(), 9)', { code: 'KERNEL_DIED', signal: 'SIGKILL' }],
    ['a segmentation fault', 'import ctypes; ctypes.string_at(0)', { code: 'KERNEL_DIED', signal: 'SIGSEGV' }],
    ['abort', 'import os; os.abort()', { code: 'KERNEL_DIED', signal: 'SIGABRT' }],
    [
      'a broken protocol',
      'import os; os.write(256, b"\\xff" * 64); __import__("signal").pause()',
      { code: 'KERNEL_PROTOCOL' },
    ],
    ...(root
      ? ([
          [
            'running out of memory',
            'import mmap\nm = mmap.mmap(-1, 2 << 30)\nfor at in range(0, len(m), 4096): m[at] = 1',
            { code: 'KERNEL_OUT_OF_MEMORY' },
          ],
        ] as [string, string, object][])
      : []),
  ];
  it.each(byCode)('after %s restores the last save, and does not run the cell again', async (name, code, cause) => {
    await using session = await open({ saveAfterMs: NEVER, limits: { memoryMb: 256 } });
    if (await lacksFor(session, code)) return;
    await session.run('x = [1]\ndef f(): return x\nlive = open("live", "w")');
    await session.save();
    await session.run('x.append(2); unsaved = 1');
    const died = await session.run(`open("log", "a").write("ran\\n")\n${code}`);
    if (name === 'running out of memory' && !session.capabilities.subprocesses) {
      // The limit is one of the interpreter's own memory, and an error in the code.
      expect(died).toMatchObject({
        status: 'error',
        error: { name: expect.stringMatching(/MemoryError|OverflowError/) },
      });
      return;
    }
    expect(died).toMatchObject({ status: 'died', death: cause });
    const result = await session.run('[f(), "unsaved" in dir(), open("log").read()]');
    expect(result).toMatchObject({ status: 'ok', value: [[1], false, 'ran\n'], recovered: { cause } });
    const { recovered } = result;
    expect([...(recovered?.restored ?? [])].sort()).toEqual(['f', 'x']);
    expect(reasons(recovered?.lost).live).toContain('file');
    expect(recovered?.savedAgoMs).toBeGreaterThanOrEqual(0);
    expect(recovered?.savedAgoMs).toBeLessThan(30_000);
    // Told once.
    expect((await session.run('f()')).recovered).toBeUndefined();
  });

  const victims: [name: string, find: (session: Session) => Promise<number>, cause: object][] = [
    ['the kernel', kernelPid, { code: 'KERNEL_DIED', signal: 'SIGKILL' }],
    ['pid 1 of its sandbox', async ({ pid }) => pid, { code: 'KERNEL_DIED' }],
  ];
  if (templated) {
    victims.push(['the template', async ({ pid }) => templateAbove(pid), { code: 'KERNEL_DIED' }]);
  }
  it.each(victims)('after %s was killed in the middle of a cell restores the last save', async (...row) => {
    const [, find, cause] = row;
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    const victim = await find(session);
    const code = 'open("log", "a").write("ran\\n")\nx = 2\nprint("ready", flush=True)\nwhile True: pass';
    const { result } = await runUntilReady(session, code);
    kill(victim);
    expect(await result).toMatchObject({ status: 'died', stdout: 'ready\n', death: cause });
    expect(await session.run('[x, open("log").read()]')).toMatchObject({
      status: 'ok',
      value: [1, 'ran\n'],
      recovered: { cause, restored: ['x'], lost: [], savedAgoMs: expect.any(Number) },
    });
  });

  it.each(victims)('after %s was killed between two cells restores the last save', async (_name, find, cause) => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2');
    await killIdle(session, await find(session));
    expect(await next(session, 'x')).toMatchObject({ status: 'ok', value: 1, recovered: { cause, restored: ['x'] } });
    expect(await session.run('x += 1; x')).toMatchObject({ status: 'ok', value: 2 });
  });

  it('loses live checkpoints with their sandbox, and never confuses them', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.checkpoint({ name: 'old' });
    await session.save();
    await killIdle(session, session.pid);
    await expect(session.restore('old')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    expect(await next(session, 'x')).toMatchObject({ value: 1, recovered: {} });
    await session.run('x = 2');
    await session.checkpoint({ name: 'young' });
    await expect(session.restore('old')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    expect(await evaluate(session, 'x')).toBe(2);
  });

  it('from an explicit transaction whose sandbox has ended uses the last save', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2', { transaction: 'explicit' });
    await killIdle(session, session.pid);
    expect(await session.run('x')).toMatchObject({ status: 'ok', value: 1, recovered: {} });
    await expect(session.commit()).rejects.toMatchObject({ code: 'NO_TRANSACTION' });
  });

  it('after a death in a transaction that can no longer be rolled back uses the last save', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2');
    if (await lacks(session, 'subprocesses')) return;
    const { pid } = session;
    const code = 'x = 3\nprint("ready", flush=True)\nwhile True: pass';
    const { result } = await runUntilReady(session, code, { transaction: 'rollback_on_failure' });
    kill(pid);
    const died = await result;
    expect(died).toMatchObject({ status: 'died', stdout: 'ready\n' });
    expect(died.transaction).toBeUndefined();
    expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
  });
}
