/** Spending limits of sessions and users. A call reserves its worst-case cost until its real cost is known and recorded. */

import { onAbort } from '../../lib/abort.ts';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { UsageCounts } from '../../protocol/turn.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import type { UserQuotas } from '../quotas/user-quotas.ts';
import { costOf, type ModelPolicy, type Price, worstCasePrice } from './model-policy.ts';
import type { ModelRequest } from './model-request.ts';
import { callerGone } from './upstream.ts';
import { tokensIn, type UsageLedger } from './usage-ledger.ts';

export interface BudgetsOptions {
  readonly rules: ModelPolicy;
  readonly usage: Pick<UsageLedger, 'session' | 'today'>;
  readonly quotas: Pick<UserQuotas, 'limitsOf'>;
}

interface BudgetLimits {
  readonly usd?: number | undefined;
  readonly tokens?: number | undefined;
}

/** Message parts: whose budget it is, and what to do when it is used up. */
interface BudgetText {
  readonly who: string;
  readonly when: string;
  readonly advice: string;
}

/** A session's budget is never refilled. */
const ofSession: BudgetText = {
  who: 'This session',
  when: '',
  advice:
    'Use another session; the budget of a session does not reset. The operator sets it with `cella serve --session-budget` and `--session-tokens`.',
};

const ofDay: BudgetText = {
  who: 'This user',
  when: ' a day',
  advice:
    'Wait for the next day (UTC), or ask an admin for more: `cella users update NAME` with --model-usd or --model-tokens.',
};

export function checkModel({ allows }: ModelPolicy, provider: Provider, model: string | undefined): void {
  if (model === undefined || allows(provider, model)) return;
  throw new CellaError('MODEL_NOT_ALLOWED', `The model ${model} of ${provider} is not allowed here.`, {
    details: { provider, model },
  });
}

export class Budgets {
  readonly #parts: BudgetsOptions;
  readonly #reservations = new Reservations();

  constructor(parts: BudgetsOptions) {
    this.#parts = parts;
  }

  /** Reserves the call's worst-case cost until disposed of. Throws BUDGET_EXCEEDED if the budget is used up. */
  async reserve(
    { session, userId }: TokenBinding,
    { model, otherModels, body, outputLimit, storedContext: storedContextName }: ModelRequest,
    signal: AbortSignal,
  ): Promise<Disposable> {
    const { rules, usage, quotas } = this.#parts;
    const { modelUsdPerDay, modelTokensPerDay } = await quotas.limitsOf(userId);
    const ofUser: BudgetLimits = { usd: modelUsdPerDay, tokens: modelTokensPerDay };
    const prices = [model, ...otherModels].map((name) => ({
      name,
      price: name === undefined ? undefined : rules.priceOf(name),
    }));
    const unknown = prices.find(({ price }) => !price);
    if (unknown && (rules.session.usd ?? ofUser.usd) !== undefined) throw unpriced(unknown.name);
    const budgets = [
      reservedBudget(`session/${session}`, ofSession, rules.session, () => usage.session(session)),
      reservedBudget(`user/${userId}`, ofDay, ofUser, () => usage.today(userId)),
    ].filter(({ usd, tokens }) => usd !== undefined || tokens !== undefined);
    if (storedContextName !== undefined && budgets.length > 0) throw unbounded(storedContextName);
    const worstPrice = highestPrices(prices.flatMap(({ price }) => price ?? []));
    const estimate = estimateOf(body?.length ?? 0, outputLimit.tokens, worstPrice);
    return await this.#reservations.take(budgets, estimate, signal);
  }
}

function reservedBudget(
  key: string,
  budget: BudgetText,
  limits: BudgetLimits,
  read: () => Promise<UsageCounts>,
): ReservedBudget {
  const used = async () => {
    const counts = await read();
    return { usd: counts.costUsd, tokens: tokensIn(counts) };
  };
  return { ...limits, key, used, check: (spent) => checkSpent(budget, limits, spent) };
}

function checkSpent({ who, when, advice }: BudgetText, limits: BudgetLimits, { usd, tokens }: CostEstimate): void {
  const exceeded = (message: string) => new CellaError('BUDGET_EXCEEDED', message, { advice });
  if (limits.usd !== undefined && usd >= limits.usd) {
    throw exceeded(`${who} may spend ${limits.usd} USD${when} on models, and has spent ${usd.toFixed(4)}.`);
  }
  if (limits.tokens !== undefined && tokens >= limits.tokens) {
    throw exceeded(`${who} may use ${limits.tokens} tokens of models${when}, and has used ${tokens}.`);
  }
}

/** A budget cannot be enforced if the cost is unknown. */
function unpriced(model: string | undefined): CellaError {
  const price = `${model}=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE`;
  return new CellaError('MODEL_NOT_ALLOWED', `The model ${model} has no price, and there is a budget in USD.`, {
    details: { model },
    advice: `Use another model, or ask the operator to set its price in USD per million tokens: \`cella serve --price ${price}\`; see docs/gateway.md.`,
  });
}

/** A client that disconnects before the provider reports the usage would not be charged for it. */
const unbounded = (name: string): CellaError =>
  new CellaError('INVALID_REQUEST', `${name} refers to content of unknown size, and there is a budget.`, {
    advice: 'Send the conversation itself.',
  });

/** A budget that a call counts against. */
interface ReservedBudget {
  /** Identifies the session or user. */
  readonly key: string;
  readonly usd?: number | undefined;
  readonly tokens?: number | undefined;
  readonly used: () => Promise<CostEstimate>;
  /** Throws if nothing is left. */
  check(used: CostEstimate): void;
}

interface OpenReservations {
  readonly calls: Set<CostEstimate>;
  /** How many calls were settled. Ledger values read before the latest one are outdated. */
  settled: number;
  change: PromiseWithResolvers<void>;
  /** Waiting and running calls. At 0 the entry is removed. */
  users: number;
}

class Reservations {
  readonly #open = new Map<string, OpenReservations>();

  /** Dispose of the result once the cost of the call is saved. Throws ABORTED if the caller no longer waits. */
  async take(budgets: readonly ReservedBudget[], estimate: CostEstimate, signal: AbortSignal): Promise<Disposable> {
    const held = budgets.map((budget) => ({ budget, open: this.#hold(budget.key) }));
    const leave = () => {
      for (const { budget } of held) this.#leave(budget.key);
    };
    try {
      const call = { ...estimate };
      while (!(await tryReserve(held, call, signal))) if (signal.aborted) throw callerGone();
      return {
        [Symbol.dispose]: () => {
          for (const { open } of held) release(open, call);
          leave();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  #hold(key: string): OpenReservations {
    const known = this.#open.get(key);
    const open = known ?? { calls: new Set(), settled: 0, change: Promise.withResolvers(), users: 0 };
    open.users++;
    this.#open.set(key, open);
    return open;
  }

  #leave(key: string): void {
    const open = this.#open.get(key);
    if (open && --open.users === 0) this.#open.delete(key);
  }
}

interface Reserving {
  readonly budget: ReservedBudget;
  readonly open: OpenReservations;
}

/** Returns true if the call is reserved in all budgets, and false if a budget changed and the caller should retry. */
async function tryReserve(held: readonly Reserving[], call: CostEstimate, signal: AbortSignal): Promise<boolean> {
  const before = held.map(({ open }) => open.settled);
  const used = await Promise.all(held.map(({ budget }) => budget.used()));
  if (held.some(({ open }, at) => open.settled !== before[at])) return false;
  // No await from here until the call is reserved, so that concurrent calls see each other.
  const withUsage = held.map((each, at) => ({ ...each, used: used[at] ?? NO_COST }));
  for (const { budget, used: spent } of withUsage) budget.check(spent);
  const tight = withUsage.find((each) => !hasRoom(each, call));
  if (!tight) for (const { open } of held) open.calls.add(call);
  else await changedOrAborted(tight.open.change.promise, signal);
  return tight === undefined;
}

/** A single call always fits, because its cost is only an estimate. */
function hasRoom({ budget, open, used }: Reserving & { readonly used: CostEstimate }, call: CostEstimate): boolean {
  if (open.calls.size === 0) return true;
  const all = [used, call, ...open.calls];
  const sum = (name: keyof CostEstimate) => all.reduce((total, each) => total + each[name], 0);
  return (
    sum('usd') <= (budget.usd ?? Number.POSITIVE_INFINITY) &&
    sum('tokens') <= (budget.tokens ?? Number.POSITIVE_INFINITY)
  );
}

function release(open: OpenReservations, call: CostEstimate): void {
  open.calls.delete(call);
  open.settled++;
  open.change.resolve();
  open.change = Promise.withResolvers();
}

async function changedOrAborted(change: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using _ = onAbort(signal, resolve);
  await Promise.race([change, promise]);
}

const NO_COST: CostEstimate = { usd: 0, tokens: 0 };

interface CostEstimate {
  readonly usd: number;
  readonly tokens: number;
}

/** Of each kind of token, the highest price: the provider chooses the model. */
function highestPrices(prices: readonly Price[]): Price | undefined {
  const most = (kind: keyof Price) => Math.max(...prices.map((price) => price[kind]));
  if (prices.length === 0) return undefined;
  return { input: most('input'), output: most('output'), cacheRead: most('cacheRead'), cacheWrite: most('cacheWrite') };
}

/** Assumes one byte per token. Digits and rare characters come close to that, and an agent could choose such text. */
export function estimateOf(bytes: number, outputTokens: number, price: Price | undefined): CostEstimate {
  const counts = { input: bytes, output: outputTokens, cacheRead: 0, cacheWrite: 0 };
  return { usd: price ? costOf(counts, worstCasePrice(price)) : 0, tokens: bytes + outputTokens };
}
