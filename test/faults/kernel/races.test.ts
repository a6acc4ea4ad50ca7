/** Two calls to one session at once, in every combination: one kernel at most, its variables as they should be, and nothing left. */

import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { CellaError, type Session } from '../../../src/index.ts';
import { openSession } from '../../support/kernels/session.ts';
import { descendants, isAlive, templatesOf } from '../../support/processes/processes.ts';
import { everything } from '../../support/run/depth.ts';

const NEVER = 3_600_000;
/** How much later than the first call the second one comes. */
const OFFSETS_MS = everything ? [0, 1, 4, 12] : [2];

interface Call {
  readonly call: (session: Session) => Promise<unknown>;
  /** What it does to the variables: whatever else runs, they are there afterwards, or not. */
  readonly clears?: true;
}

const calls: Readonly<Record<string, Call>> = {
  terminal: { call: async (session) => await (await session.terminal({ argv: ['true'] })).exited },
  cell: { call: (session) => session.run('x') },
  'a dry run': { call: (session) => session.run('x = [2]', { transaction: 'rollback_always' }) },
  'a failure that is rolled back': {
    call: (session) => session.run('x = [3]; 1 / 0', { transaction: 'rollback_on_failure' }),
  },
  'a death that is rolled back': {
    call: (session) => session.run('x = [4]; import os; os._exit(1)', { transaction: 'rollback_on_failure' }),
  },
  death: { call: (session) => session.run('import os; os._exit(1)') },
  save: { call: (session) => session.save() },
  hibernate: { call: (session) => session.hibernate() },
  variables: { call: (session) => session.variables() },
  fork: { call: async (session) => await (await session.fork({ agentKey: `fork ${performance.now()}` })).destroy() },
  interrupt: { call: (session) => session.interrupt() },
  reset: { call: (session) => session.reset(), clears: true },
  restart: { call: (session) => session.restart(), clears: true },
};

/** What a call that another one overtakes may say. `TEMPLATE_FAILED`: the sandbox has ended while it was on its way there. */
const EXPECTED = new Set(['KERNEL_DIED', 'KERNEL_BUSY', 'SESSION_CLOSED', 'SANDBOX_UNAVAILABLE', 'TEMPLATE_FAILED']);

/** The codes of the errors, of which each is typed. */
async function atOnce(session: Session, first: Call, second: Call, offsetMs: number): Promise<void> {
  const settled = await Promise.allSettled([
    first.call(session),
    (async () => {
      if (offsetMs > 0) await delay(offsetMs);
      await second.call(session);
    })(),
  ]);
  for (const one of settled) {
    if (one.status === 'fulfilled') continue;
    const code = one.reason instanceof CellaError ? one.reason.code : String(one.reason);
    expect(EXPECTED, String(one.reason)).toContain(code);
  }
}

/** The kernels of this process: a template starts the pid 1 of each sandbox, which starts its kernels. */
function kernels(): number[] {
  const templates = new Set(templatesOf(process.pid).map(({ pid }) => pid));
  const all = descendants(process.pid);
  const supervisors = new Set(all.filter(({ parent }) => templates.has(parent)).map(({ pid }) => pid));
  return all.filter(({ parent }) => supervisors.has(parent)).map(({ pid }) => pid);
}

const becomes = async (count: number): Promise<boolean> =>
  await vi.waitUntil(() => kernels().length === count, { timeout: 3_000 }).catch(() => false);

test.each(Object.keys(calls))(
  '%s, and any other call',
  async (name) => {
    const first = calls[name] as Call;
    const session = await openSession({ saveAfterMs: NEVER, undo: 0 });
    const wrong: string[] = [];
    const sandboxes = new Set<number>();
    for (const [other, second] of Object.entries(calls)) {
      for (const offsetMs of OFFSETS_MS) {
        expect(await session.run('x = [1]')).toMatchObject({ status: 'ok' });
        await session.save();
        await atOnce(session, first, second, offsetMs);
        const { repr } = await session.run('globals().get("x", 0)');
        const right = first.clears || second.clears ? '0' : '[1]';
        if (repr !== right) wrong.push(`${other}, ${offsetMs} ms later: x is ${repr}`);
        sandboxes.add(session.pid);
        if (await becomes(1)) continue;
        wrong.push(`${other}, ${offsetMs} ms later: ${kernels().length} kernels`);
        await session.restart();
      }
    }
    expect(wrong).toEqual([]);
    await session.close();
    expect(await becomes(0)).toBe(true);
    await vi.waitUntil(() => ![...sandboxes].some(isAlive), { timeout: 10_000 });
  },
  240_000,
);

test('a terminal that opens during a rollback starts no second kernel', async () => {
  const session = await openSession({ saveAfterMs: NEVER, undo: 0 });
  await session.run('x = [1]');
  for (let round = 0; round < 8; round++) {
    const [kernel = 0] = kernels();
    let over = false;
    const rolledBack = session.run('x = [2]', { transaction: 'rollback_always' }).finally(() => {
      over = true;
    });
    await vi.waitUntil(() => over || !isAlive(kernel), { interval: 1 });
    const terminals: Promise<unknown>[] = [];
    while (!over && terminals.length < 4) {
      terminals.push(session.terminal({ argv: ['true'] }).then(({ exited }) => exited));
      await delay(1);
    }
    expect(await rolledBack).toMatchObject({ transaction: 'rolled_back' });
    await Promise.all(terminals);
    expect(await session.run('x')).toMatchObject({ value: [1] });
    expect(await becomes(1)).toBe(true);
  }
}, 60_000);
