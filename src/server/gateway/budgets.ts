/** Whether a call may begin: a model that is allowed, and something left to spend beside the calls that are under way. */

import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { UsageCounts } from '../../protocol/turn.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import type { UserQuotas } from '../quotas/user-quotas.ts';
import type { Asked } from './asked.ts';
import { type Estimate, estimateOf } from './estimate.ts';
import { type Claim, Reservations } from './reservations.ts';
import type { GatewayRules } from './settings.ts';
import { tokensIn, type UsageLedger } from './usage.ts';

export interface BudgetParts {
  readonly rules: GatewayRules;
  readonly usage: Pick<UsageLedger, 'session' | 'today'>;
  readonly quotas: Pick<UserQuotas, 'limitsOf'>;
}

interface Limits {
  readonly usd?: number | undefined;
  readonly tokens?: number | undefined;
}

/** Whose a budget is, and what helps where it is used up. */
interface Budget {
  readonly who: string;
  readonly when: string;
  readonly advice: string;
}

/** Never filled again. */
const ofSession: Budget = {
  who: 'This session',
  when: '',
  advice:
    'Go on in another session; what a session may use is for its whole life. The operator sets it with `cella serve --session-budget` and `--session-tokens`.',
};

const ofDay: Budget = {
  who: 'This user',
  when: ' a day',
  advice:
    'Wait for the next day (UTC), or ask an admin for more: `cella users set NAME` with --model-usd or --model-tokens.',
};

export function checkModel({ allows }: GatewayRules, provider: Provider, model: string | undefined): void {
  if (model === undefined || allows(provider, model)) return;
  throw new CellaError('MODEL_NOT_ALLOWED', `The model ${model} of ${provider} is not allowed here.`, {
    details: { provider, model },
  });
}

export class Budgets {
  readonly #parts: BudgetParts;
  readonly #reservations = new Reservations();

  constructor(parts: BudgetParts) {
    this.#parts = parts;
  }

  /** Keeps back what the call may come to, until it is disposed of. BUDGET_EXCEEDED where nothing is left. */
  async reserve(
    { session, userId }: TokenBinding,
    { model, body, wanted, referred }: Asked,
    signal: AbortSignal,
  ): Promise<Disposable> {
    const { rules, usage, quotas } = this.#parts;
    const { modelUsdPerDay, modelTokensPerDay } = await quotas.limitsOf(userId);
    const ofUser: Limits = { usd: modelUsdPerDay, tokens: modelTokensPerDay };
    const price = model === undefined ? undefined : rules.priceOf(model);
    if (!price && (rules.session.usd ?? ofUser.usd) !== undefined) throw unpriced(model);
    const claims = [
      claimOf(`session/${session}`, ofSession, rules.session, () => usage.session(session)),
      claimOf(`user/${userId}`, ofDay, ofUser, () => usage.today(userId)),
    ].filter(({ usd, tokens }) => usd !== undefined || tokens !== undefined);
    if (referred !== undefined && claims.length > 0) throw unbounded(referred);
    return await this.#reservations.take(claims, estimateOf(body?.length ?? 0, wanted.tokens, price), signal);
  }
}

function claimOf(key: string, budget: Budget, limits: Limits, read: () => Promise<UsageCounts>): Claim {
  const used = async () => {
    const counts = await read();
    return { usd: counts.costUsd, tokens: tokensIn(counts) };
  };
  return { ...limits, key, used, check: (spent) => compare(budget, limits, spent) };
}

function compare({ who, when, advice }: Budget, limits: Limits, { usd, tokens }: Estimate): void {
  const exceeded = (message: string) => new CellaError('BUDGET_EXCEEDED', message, { advice });
  if (limits.usd !== undefined && usd >= limits.usd) {
    throw exceeded(`${who} may spend ${limits.usd} USD${when} on models, and has spent ${usd.toFixed(4)}.`);
  }
  if (limits.tokens !== undefined && tokens >= limits.tokens) {
    throw exceeded(`${who} may use ${limits.tokens} tokens of models${when}, and has used ${tokens}.`);
  }
}

/** What it would cost is not known, so that no budget could hold. */
function unpriced(model: string | undefined): CellaError {
  const price = `${model}=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE`;
  return new CellaError(
    'MODEL_NOT_ALLOWED',
    `No price is known for the model ${model}, and there is a budget in USD.`,
    {
      details: { model },
      advice: `Use another model, or let the operator start the server with its price in USD for a million tokens: \`cella serve --price ${price}\`; see docs/gateway.md.`,
    },
  );
}

/** Whoever hangs up before it is told how much that was would pay for none of it. */
const unbounded = (name: string): CellaError =>
  new CellaError('INVALID_REQUEST', `How much ${name} refers to is not known beforehand, and there is a budget.`, {
    advice: 'Send the conversation itself.',
  });
