/** Everything that can be done with the state of a session, in any order: what is there is always what should be there. */

import { describe, expect, it } from 'vitest';
import type { ResultEvent, Session } from '../../../src/index.ts';
import type { Open } from '../../support/kernels/session.ts';
import { evaluate } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { everything } from '../../support/run/depth.ts';

const STEPS = 80;
/** So few where a kernel takes long to start: each walks through every step. */
const SOME = [1, 2];
const MANY = [...SOME, 3, ...(everything ? [4, 5] : [])];

/** Numbers that only look random, so that a walk can be walked again. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** What a session should hold: the list `a`, at every point that can be gone back to. */
interface Model {
  a: number[];
  readonly live: Map<string, number[]>;
  readonly durable: Map<string, number[]>;
}

/** Runs a cell in a kernel that has not died. */
async function run(session: Session, ...words: Parameters<Session['run']>): Promise<ResultEvent> {
  const result = await session.run(...words);
  expect(result.recovered).toBeUndefined();
  return result;
}

type Step = (session: Session, model: Model, roll: (below: number) => number) => Promise<void>;

const add: Step = async (session, model, roll) => {
  const n = roll(1000);
  await run(session, `a.append(${n})`);
  model.a = [...model.a, n];
};

const steps: Record<string, Step> = {
  add,
  'add and print': async (session, model, roll) => {
    const n = roll(1000);
    expect((await run(session, `a.append(${n}); print(len(a))`)).stdout).toBe(`${model.a.length + 1}\n`);
    model.a = [...model.a, n];
  },
  'dry run': async (session) => {
    expect((await run(session, 'a.append(-1)', { transaction: 'rollback_always' })).transaction).toBe('rolled_back');
  },
  'fail and roll back': async (session) => {
    const { transaction } = await run(session, 'a.append(-2); 1 / 0', { transaction: 'rollback_on_failure' });
    expect(transaction).toBe('rolled_back');
  },
  'die and roll back': async (session) => {
    const code = 'a.append(-3); import os; os._exit(1)';
    expect((await run(session, code, { transaction: 'commit_on_success' })).transaction).toBe('rolled_back');
  },
  commit: async (session, model, roll) => {
    const n = roll(1000);
    expect((await run(session, `a.append(${n})`, { transaction: 'commit_on_success' })).transaction).toBe('committed');
    model.a = [...model.a, n];
  },
  decide: async (session, model, roll) => {
    const n = roll(1000);
    expect((await run(session, `a.append(${n})`, { transaction: 'explicit' })).transaction).toBe('open');
    if (roll(2)) {
      await session.commit();
      model.a = [...model.a, n];
    } else await session.rollback();
  },
  'live checkpoint': async (session, model, roll) => {
    const name = `live ${roll(3)}`;
    await session.checkpoint({ name });
    model.live.set(name, model.a);
  },
  'go back to a live checkpoint': async (session, model, roll) => {
    const name = `live ${roll(3)}`;
    const there = model.live.get(name);
    if (there) {
      await session.restore(name);
      model.a = there;
    } else await expect(session.restore(name)).rejects.toMatchObject({ code: expect.stringMatching(/^CHECKPOINT_/) });
  },
  'durable checkpoint': async (session, model, roll) => {
    const name = `durable ${roll(2)}`;
    expect((await session.checkpoint({ name, durable: true })).saved).toContain('a');
    model.durable.set(name, model.a);
  },
  'go back to a durable checkpoint': async (session, model, roll) => {
    const name = `durable ${roll(2)}`;
    const there = model.durable.get(name);
    if (!there) return;
    expect((await session.restore(name)).restored).toContain('a');
    model.a = there;
  },
  save: (session) => session.save(),
  'begin to save': async (session) => {
    session.save().catch(() => {}); // it may be overtaken
  },
  'save and die': async (session, model) => {
    await session.save();
    await run(session, 'a.append(-4); import os; os._exit(1)');
    expect((await session.run('a')).recovered?.restored).toContain('a');
    expect(model.a).not.toContain(-4);
    // They were in the memory that has ended.
    if (!session.capabilities.trueRollback) model.live.clear();
  },
  hibernate: async (session, model) => {
    await session.hibernate();
    model.live.clear();
  },
  fork: async (session, model) => {
    if (await lacks(session, 'forks')) return;
    const fork = await session.fork({ agentKey: 'forked' });
    expect(await evaluate(fork, 'a')).toEqual(model.a);
    await fork.run('a.append(-5)');
    await fork.close();
  },
  look: async (session) => {
    expect((await session.variables()).map(({ name }) => name)).toContain('a');
  },
};

export function walkContract(open: Open, thorough: boolean): void {
  describe('a random sequence of all state operations', () => {
    it.each(thorough ? MANY : SOME)(
      'never loses or invents anything, with the seed %i',
      { timeout: 60_000 },
      async (seed) => {
        const roll = dice(seed);
        await using session = await open({ saveAfterMs: 5 });
        const model: Model = { a: [], live: new Map(), durable: new Map() };
        await session.run('a = []');
        // Where a death takes the moment before the cell along, the last save comes back instead.
        const rollsBackDeaths = session.capabilities.trueRollback;
        const names = Object.keys(steps).filter((name) => rollsBackDeaths || name !== 'die and roll back');
        const walked: string[] = [];
        for (let step = 0; step < STEPS; step++) {
          const name = names[roll(names.length)] ?? 'add';
          walked.push(name);
          await (steps[name] ?? add)(session, model, roll);
          if (roll(3) === 0)
            expect(await evaluate(session, 'a'), `after ${walked.slice(-8).join(', ')}`).toEqual(model.a);
        }
        expect(await evaluate(session, 'a')).toEqual(model.a);
      },
    );
  });
}
