/** The ways in which a kernel comes to be: each must be closed in as well as the others. */

import { eventually } from './attack.ts';
import { processes, templatesOf } from './processes.ts';
import { type Open, openSession } from './session.ts';

/** In a sandbox that was made before its policy was known. */
const fromSpare: Open = async (options) => {
  await openSession({ spares: 1 });
  const [template] = templatesOf(process.pid);
  await eventually(
    () => processes().filter(({ parent }) => parent === template?.pid).length,
    (sandboxes) => sandboxes >= 2,
    10_000,
  );
  return openSession(options);
};

/** Forked by a pid 1 that is closed in already. */
const afterReset: Open = async (options) => {
  const session = await openSession(options);
  await session.reset();
  return session;
};

export const kinds: [name: string, open: Open][] = [
  ['a first kernel', openSession],
  ['a kernel from a spare', fromSpare],
  ['a kernel after a reset', afterReset],
];
