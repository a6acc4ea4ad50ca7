/**
 * What calls that are under way may come to, kept from a budget until it is known what they came to. Whoever does not fit
 * in beside them waits for their end: an estimate is no reason to refuse a call.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Estimate } from './estimate.ts';

/** A budget that a call is on. */
export interface Claim {
  /** Whose it is. */
  readonly key: string;
  readonly usd?: number | undefined;
  readonly tokens?: number | undefined;
  readonly used: () => Promise<Estimate>;
  /** Throws where nothing is left of it. */
  check(used: Estimate): void;
}

interface Tab {
  readonly calls: Set<Estimate>;
  /** How often something was settled: what was read of the ledger before that is out of date. */
  settled: number;
  change: PromiseWithResolvers<void>;
  /** Those that look at it. Nobody's is forgotten. */
  users: number;
}

export class Reservations {
  readonly #tabs = new Map<string, Tab>();

  /** To be disposed of when it is written down what the call came to. ABORTED where nobody waits for it any more. */
  async take(claims: readonly Claim[], estimate: Estimate, signal: AbortSignal): Promise<Disposable> {
    const held = claims.map((claim) => ({ claim, tab: this.#hold(claim.key) }));
    const leave = () => {
      for (const { claim } of held) this.#leave(claim.key);
    };
    try {
      const call = { ...estimate };
      while (!(await fits(held, call, signal))) if (signal.aborted) throw aborted();
      return {
        [Symbol.dispose]: () => {
          for (const { tab } of held) settle(tab, call);
          leave();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  #hold(key: string): Tab {
    const known = this.#tabs.get(key);
    const tab = known ?? { calls: new Set(), settled: 0, change: Promise.withResolvers(), users: 0 };
    tab.users++;
    this.#tabs.set(key, tab);
    return tab;
  }

  #leave(key: string): void {
    const tab = this.#tabs.get(key);
    if (tab && --tab.users === 0) this.#tabs.delete(key);
  }
}

interface Held {
  readonly claim: Claim;
  readonly tab: Tab;
}

/** True where the call is on all tabs; false where it is worth another look, after what was waited for. */
async function fits(held: readonly Held[], call: Estimate, signal: AbortSignal): Promise<boolean> {
  const before = held.map(({ tab }) => tab.settled);
  const used = await Promise.all(held.map(({ claim }) => claim.used()));
  if (held.some(({ tab }, at) => tab.settled !== before[at])) return false;
  // From here on nothing is waited for until the call is on its tabs: of several at once, each sees the others.
  const looked = held.map((each, at) => ({ ...each, used: used[at] ?? NOTHING }));
  for (const { claim, used: spent } of looked) claim.check(spent);
  const tight = looked.find((each) => !hasRoom(each, call));
  if (!tight) for (const { tab } of held) tab.calls.add(call);
  else await unlessAborted(tight.tab.change.promise, signal);
  return tight === undefined;
}

/** One call alone always has: nobody knows better what it will come to. */
function hasRoom({ claim, tab, used }: Held & { readonly used: Estimate }, call: Estimate): boolean {
  if (tab.calls.size === 0) return true;
  const all = [used, call, ...tab.calls];
  const sum = (name: keyof Estimate) => all.reduce((total, each) => total + each[name], 0);
  return (
    sum('usd') <= (claim.usd ?? Number.POSITIVE_INFINITY) && sum('tokens') <= (claim.tokens ?? Number.POSITIVE_INFINITY)
  );
}

function settle(tab: Tab, call: Estimate): void {
  tab.calls.delete(call);
  tab.settled++;
  tab.change.resolve();
  tab.change = Promise.withResolvers();
}

async function unlessAborted(change: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = () => resolve();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([change, promise]);
  signal.removeEventListener('abort', stop);
}

const NOTHING: Estimate = { usd: 0, tokens: 0 };

const aborted = (): CellaError => new CellaError('ABORTED', 'Nobody waits for it any more.');
