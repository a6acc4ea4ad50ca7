/**
 * One kernel for tests that do not care whether it is new: where a start takes long, they get it one after the other.
 * What a test has left in it is cleared away before the next one; where that does not work, the next one gets another.
 */

import { afterAll } from 'vitest';
import type { Session, SessionOptions } from '../../../src/index.ts';
import type { Open } from './session.ts';

const REMEMBER = '__import__("builtins")._names_before = set(globals()); None';
/** A kernel that has taken the place of the first, as after a reset, is as new. */
const CLEAR = `
def _clear():
    import builtins
    if not hasattr(builtins, "_names_before"):
        builtins._names_before = set(globals()) - {"_clear"}
    for name in set(globals()) - builtins._names_before:
        del globals()[name]
_clear()
`;
/** One that has run more cells than this has enough in its history. */
const MOST_LOANS = 40;

/** `open` must make sessions that outlive a test. */
export function lending(open: Open): Open {
  let idle: { session: Session; loans: number } | undefined;
  afterAll(async () => await idle?.session.close());
  return async (options: SessionOptions = {}) => {
    if (Object.keys(options).length > 0) return await open(options);
    const taken = idle;
    idle = undefined;
    const usable = taken && (await isCleared(taken.session));
    if (!usable) await taken?.session.close();
    const { session, loans } = usable ? taken : { session: await begin(open), loans: 0 };
    const giveBack = async () => {
      if (loans < MOST_LOANS && idle === undefined) idle = { session, loans: loans + 1 };
      else await session.close();
    };
    return lent(session, giveBack);
  };
}

async function begin(open: Open): Promise<Session> {
  const session = await open();
  await session.run(REMEMBER);
  return session;
}

async function isCleared(session: Session): Promise<boolean> {
  try {
    const { status, recovered } = await session.run(CLEAR, { timeoutMs: 10_000 });
    return status === 'ok' && recovered === undefined;
  } catch {
    return false; // it was closed, or is broken: that is what the test was about
  }
}

/** The session itself, but for its end. */
function lent(session: Session, giveBack: () => Promise<void>): Session {
  return new Proxy(session, {
    get(target, name) {
      if (name === Symbol.asyncDispose || name === 'close') return giveBack;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
