/** Records what a call to a model cost: what the provider reports, or else the most that it can have been. */

import type { Logger } from 'pino';
import type { TokenUsage } from '../../protocol/turn.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import { costOf, type ModelPolicy, worstCasePrice } from './model-policy.ts';
import type { ModelRequest } from './model-request.ts';
import type { UsageLedger } from './usage-ledger.ts';
import type { ResponseUsageReader } from './usage-reader.ts';

export interface ChargingOptions {
  readonly rules: ModelPolicy;
  readonly usage: Pick<UsageLedger, 'add'>;
  readonly log?: Logger | undefined;
  /** Called after each call's usage is saved. */
  readonly onUsage?: ((binding: TokenBinding, usage: TokenUsage) => void) | undefined;
}

interface FinishedCall {
  readonly binding: TokenBinding;
  readonly modelRequest: ModelRequest;
  readonly timing: CallTiming;
  readonly reader: ResponseUsageReader;
}

/** Charges the call even if the agent disconnected midway: the provider produced the output. */
export async function chargeCall(
  parts: ChargingOptions,
  { binding, modelRequest, timing, reader }: FinishedCall,
): Promise<void> {
  const { rules, usage, log, onUsage } = parts;
  const { workedMs } = timing;
  if (workedMs === undefined) return;
  const unreported = {
    // The upper bound: a token has at least one byte.
    input: modelRequest.body?.length ?? 0,
    output: maxProduced(modelRequest, { workedMs, isOver: reader.isOver }),
  };
  const { counts, model = modelRequest.model, reported } = reader.reading(unreported);
  const price = rules.priceOf(model ?? '') ?? rules.priceOf(modelRequest.model ?? '');
  const used: TokenUsage = {
    ...counts,
    costUsd: price && costOf(counts, reported.input ? price : worstCasePrice(price)),
    model: model?.slice(0, 200),
  };
  const estimated = !reported.input || !reported.output;
  await usage.add(binding, { usage: used, estimated });
  const { session, turn, userId } = binding;
  log?.info({ session, turn, userId, ...used, estimated }, 'model call');
  onUsage?.(binding, used);
}

/** Upper bound on tokens per answer: the fastest models of these providers produce a few hundred. */
const MOST_PER_SECOND = 500;
/** How long a provider may keep producing after the client disconnects. */
const NOTICED_MS = 2000;

export class CallTiming {
  readonly #clock: () => number;
  #sentAt: number | undefined;
  #refused = false;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** The connection is open, so from now on the provider may have the request. */
  sent(): void {
    this.#sentAt = this.#clock();
  }

  /** Errors and redirects are not charged. */
  answered(status: number): void {
    this.#refused = status < 200 || status >= 300;
  }

  /** How long the provider has had the request. Undefined if it never received or has refused it. */
  get workedMs(): number | undefined {
    return this.#sentAt === undefined || this.#refused ? undefined : this.#clock() - this.#sentAt;
  }
}

/** The maximum number of output tokens produced so far. `isOver`: the answer is complete. */
export function maxProduced(
  { outputLimit, streamed }: Pick<ModelRequest, 'outputLimit' | 'streamed'>,
  { workedMs, isOver }: { readonly workedMs: number; readonly isOver: boolean },
): number {
  // The provider always completes an answer that is not a stream.
  if (!isOver && !streamed) return outputLimit.tokens;
  const ms = Math.max(0, workedMs) + (isOver ? 0 : NOTICED_MS);
  return Math.min(outputLimit.tokens, Math.ceil((ms * MOST_PER_SECOND) / 1000) * outputLimit.answers);
}
