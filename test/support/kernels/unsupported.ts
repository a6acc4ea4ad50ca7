/** What an executor says that it cannot do: the code meets a refusal with words, and the rest of the test is not for it. */

import { expect } from 'vitest';
import type { Session } from '../../../src/index.ts';
import type { Open } from './session.ts';

type Need = 'threads' | 'subprocesses' | 'native code' | 'forks';

/** They leave no names behind. */
const PROBES: Readonly<Record<Exclude<Need, 'forks'>, { code: string; error: RegExp }>> = {
  threads: { code: '__import__("threading").Thread(target=print).start()', error: /^RuntimeError: .*thread/ },
  subprocesses: {
    code: 'try:\n    __import__("os").system("true")\nexcept OSError: __import__("subprocess").run(["true"])',
    error: /^OSError: .*processes/,
  },
  'native code': { code: 'import ctypes', error: /^ImportError: ctypes is not available/ },
};

const WORDS: readonly [RegExp, Need][] = [
  [/threading\.(Thread|Timer)/, 'threads'],
  [/subprocess|os\.(system|fork)|\/proc\//, 'subprocesses'],
  [/ctypes|numpy|pandas|matplotlib/, 'native code'],
];

/** Whether this session cannot do what the test needs. That it cannot is checked where it is so, and where it is not. */
export async function lacks(session: Session, need: Need): Promise<boolean> {
  const { threads, subprocesses, liveFork } = session.capabilities;
  if ({ threads, subprocesses, 'native code': subprocesses, forks: liveFork }[need]) return false;
  if (need === 'forks') {
    await expect(session.fork({ agentKey: 'a fork' })).rejects.toMatchObject({ code: 'CAPABILITY_MISSING' });
    return true;
  }
  const { code, error } = PROBES[need];
  const result = await session.run(code);
  expect(`${result.error?.name}: ${result.error?.message}`).toMatch(error);
  return true;
}

/** The same for code of a table: by the words in it. */
export async function lacksFor(session: Session, ...code: readonly string[]): Promise<boolean> {
  const need = WORDS.find(([words]) => code.some((text) => words.test(text)))?.[1];
  return need !== undefined && (await lacks(session, need));
}

/** The same, for whoever needs a session that nobody has used: it is opened only where it can do what is needed. */
export async function kindLacks(lend: Open, need: Need): Promise<boolean> {
  await using session = await lend();
  return await lacks(session, need);
}

export async function kindLacksFor(lend: Open, ...code: readonly string[]): Promise<boolean> {
  await using session = await lend();
  return await lacksFor(session, ...code);
}
