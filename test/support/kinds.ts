/** The ways in which a kernel comes to be: each must be closed in as well as the others. */

import { eventually } from './attack.ts';
import { type Open, openSession, scratchFolder } from './session.ts';

let keepers = 0;

/** In a sandbox, and with a kernel, that were there before anybody asked for them. */
const fromSpare: Open = async (options = {}) => {
  const same = { dataDir: await scratchFolder(), ...options };
  const keeper = await openSession({ ...same, agentKey: `keeper of spares ${++keepers}`, spares: 1 });
  await eventually(
    () => keeper.spares,
    (count) => count === 1,
    10_000,
  );
  const session = await openSession(same);
  if (keeper.spares === 1) throw new Error('the session did not take the spare');
  return session;
};

/** Forked by a pid 1 that is closed in already. */
const afterReset: Open = async (options) => {
  const session = await openSession(options);
  await session.reset();
  return session;
};

/** A frozen fork of the first kernel, which took its place. */
const afterRollback: Open = async (options) => {
  const session = await openSession(options);
  const { transaction } = await session.run('pass', { transaction: 'rollback_always' });
  if (transaction !== 'rolled_back') throw new Error('the cell was not rolled back');
  return session;
};

export const kinds: [name: string, open: Open][] = [
  ['a first kernel', openSession],
  ['a kernel from a spare', fromSpare],
  ['a kernel after a reset', afterReset],
  ['a kernel after a rollback', afterRollback],
];
