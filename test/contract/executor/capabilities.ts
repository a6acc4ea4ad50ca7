/** Capabilities: what an executor says that it can do works, and what it says that it cannot is refused by type. */

import { describe, expect, it } from 'vitest';
import type { Capabilities, ExecutorKind } from '../../../src/index.ts';
import { type Open, runUntilReady } from '../../support/kernels/session.ts';
import { evaluate } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

const NONE: ReadonlySet<keyof Capabilities> = new Set();
/** What may be false, by executor. */
const MAY_LACK: Readonly<Record<ExecutorKind, ReadonlySet<keyof Capabilities>>> = {
  subprocess: NONE,
  container: NONE,
  'in-process': new Set(['threads', 'subprocesses', 'interruptSleep', 'trueRollback', 'liveFork']),
};
const SAY = 'name: say\ndescription: Says\ncommand: [echo, said]\n';

async function capabilitiesOf(lend: Open): Promise<Capabilities> {
  await using session = await lend();
  return session.capabilities;
}

export function capabilitiesContract(open: Open, lend = open): void {
  describe('its capabilities', () => {
    it('are five, and the executor has all that it must have', async () => {
      await using session = await lend();
      const { capabilities, executor } = session;
      expect(Object.keys(capabilities).sort()).toEqual([...MAY_LACK['in-process']].sort());
      const missing = Object.entries(capabilities).filter(([, can]) => !can);
      expect(missing.filter(([name]) => !MAY_LACK[executor].has(name as keyof Capabilities))).toEqual([]);
    });

    it('threads: they run, or starting one is a RuntimeError', async () => {
      await using session = await lend();
      if (await lacks(session, 'threads')) return;
      const code = 'import threading\nt = threading.Thread(target=lambda: seen.append(1))\nt.start(); t.join()\nseen';
      expect(await session.run(`seen = []\n${code}`)).toMatchObject({ status: 'ok', value: [1] });
    });

    it('subprocesses: they run, or are an OSError, and a tool beside the code is CAPABILITY_MISSING', async () => {
      await using session = await lend();
      await session.tools.create(SAY);
      const inside = 'try:\n    said = tools.say()\nexcept RuntimeError as error:\n    said = error.code\nsaid';
      if (await lacks(session, 'subprocesses')) {
        await expect(session.tools.call('say', {})).rejects.toMatchObject({ code: 'CAPABILITY_MISSING' });
        expect(await evaluate(session, inside)).toBe('CAPABILITY_MISSING');
        return;
      }
      expect(await evaluate(session, 'import subprocess\nsubprocess.run(["true"]).returncode')).toBe(0);
      expect(await session.tools.call('say', {})).toContain('said');
      expect(await evaluate(session, inside)).toContain('said');
    });

    it('subprocesses: a program has a terminal in the sandbox, or that is CAPABILITY_MISSING', async () => {
      await using session = await lend();
      await session.run('open("here", "w").write("the same folder")');
      const argv = ['sh', '-c', 'stty size; cat here; kill -TERM $$'];
      if (!session.capabilities.subprocesses) {
        await expect(session.terminal({ argv })).rejects.toMatchObject({ code: 'CAPABILITY_MISSING' });
        return;
      }
      await using terminal = await session.terminal({ argv, cols: 91, rows: 17 });
      let shown = '';
      for await (const chunk of terminal.output) shown += Buffer.from(chunk).toString();
      expect(shown).toBe('17 91\r\nthe same folder');
      expect(await terminal.exited).toEqual({ signal: 'SIGTERM' });
    });

    it('interruptSleep: an interrupt ends time.sleep, or ends the kernel after the grace period', async () => {
      const { interruptSleep } = await capabilitiesOf(lend);
      // Where it cannot be interrupted, the grace period is waited out.
      await using session = await open({ graceMs: interruptSleep ? 5000 : 100 });
      const { result } = await runUntilReady(session, 'import time\nprint("ready", flush=True)\ntime.sleep(1000)');
      await session.interrupt();
      const { status, death } = await result;
      const end = interruptSleep ? undefined : 'SIGKILL';
      expect({ status, end: death?.signal }).toEqual({ status: 'interrupted', end });
    });

    it('trueRollback: a snapshot outlives its kernel with all of its memory, or is CHECKPOINT_GONE', async () => {
      await using session = await open();
      await session.run('steps = iter(range(10)); next(steps)');
      await session.checkpoint({ name: 'first step' });
      await session.run('next(steps)', { transaction: 'rollback_always' });
      expect(await evaluate(session, 'next(steps)')).toBe(session.capabilities.trueRollback ? 1 : 2);
      expect((await session.run('import os; os._exit(1)')).status).toBe('died');
      if (session.capabilities.trueRollback) {
        await session.restore('first step');
        expect(await evaluate(session, 'next(steps)')).toBe(1);
        return;
      }
      await expect(session.restore('first step')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    });

    it('liveFork: a second kernel has the same memory, or a fork is CAPABILITY_MISSING', async () => {
      await using session = await lend();
      await session.run('steps = iter(range(10)); next(steps)');
      if (await lacks(session, 'forks')) return;
      await using fork = await session.fork({ agentKey: `fork of ${session.agentKey}` });
      expect([await evaluate(fork, 'next(steps)'), await evaluate(fork, 'next(steps)')]).toEqual([1, 2]);
      expect(await evaluate(session, 'next(steps)')).toBe(1);
    });
  });
}
