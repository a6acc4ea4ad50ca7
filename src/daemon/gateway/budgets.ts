/** Whether a call may begin: a model that is allowed, and something left to spend. */

import type { UsageCounts } from '../../protocol/agent/usage.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Provider } from '../../protocol/providers.ts';
import type { QuotaKeeper, TokenBinding } from '../access/contract.ts';
import type { GatewayRules } from './settings.ts';
import { tokensIn, type UsageLedger } from './usage.ts';

export interface BudgetParts {
  readonly rules: GatewayRules;
  readonly usage: Pick<UsageLedger, 'session' | 'today'>;
  readonly quotas: Pick<QuotaKeeper, 'of'>;
}

interface Limits {
  readonly usd?: number | undefined;
  readonly tokens?: number | undefined;
}

export function checkModel({ allows }: GatewayRules, provider: Provider, model: string | undefined): void {
  if (model === undefined || allows(provider, model)) return;
  throw new CellaError('MODEL_NOT_ALLOWED', `The model ${model} of ${provider} is not allowed here.`, {
    details: { provider, model },
  });
}

/** Calls that are under way are not counted yet: a budget can be passed by them. */
export async function checkBudgets(
  { rules, usage, quotas }: BudgetParts,
  { session, userId }: TokenBinding,
  model: string | undefined,
): Promise<void> {
  const { modelUsdPerDay, modelTokensPerDay } = await quotas.of(userId);
  const ofUser: Limits = { usd: modelUsdPerDay, tokens: modelTokensPerDay };
  const capped = rules.session.usd !== undefined || ofUser.usd !== undefined;
  if (capped && (model === undefined || !rules.priceOf(model))) throw unpriced(model);
  if (isLimited(rules.session)) compare('This session', '', rules.session, await usage.session(session));
  if (isLimited(ofUser)) compare('This user', ' a day', ofUser, await usage.today(userId));
}

const isLimited = ({ usd, tokens }: Limits): boolean => usd !== undefined || tokens !== undefined;

function compare(who: string, when: string, limits: Limits, used: UsageCounts): void {
  if (limits.usd !== undefined && used.costUsd >= limits.usd) {
    throw exceeded(`${who} may spend ${limits.usd} USD${when} on models, and has spent ${used.costUsd.toFixed(4)}.`);
  }
  const tokens = tokensIn(used);
  if (limits.tokens !== undefined && tokens >= limits.tokens) {
    throw exceeded(`${who} may use ${limits.tokens} tokens of models${when}, and has used ${tokens}.`);
  }
}

const exceeded = (message: string): CellaError => new CellaError('BUDGET_EXCEEDED', message);

/** What it would cost is not known, so that no budget could hold. */
function unpriced(model: string | undefined): CellaError {
  return new CellaError(
    'MODEL_NOT_ALLOWED',
    `No price is known for the model ${model}, and there is a budget in USD.`,
    {
      details: { model },
      advice: 'Use another model, or ask the operator of the server for its price (`--price`).',
    },
  );
}
