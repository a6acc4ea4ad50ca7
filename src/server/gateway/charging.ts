/** Records what a call cost: as the provider reported it, or else the most that it may charge. */

import type { Logger } from 'pino';
import type { TokenUsage } from '../../protocol/turn.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import { worstCasePrice } from './budgets.ts';
import { costOf, type ModelPolicy } from './model-policy.ts';
import type { ModelRequest } from './model-request.ts';
import type { UsageLedger } from './usage-ledger.ts';
import type { ResponseUsageReader } from './usage-reader.ts';

export interface ChargingOptions {
  readonly rules: ModelPolicy;
  readonly usage: Pick<UsageLedger, 'add'>;
  readonly log?: Logger | undefined;
  /** Told of each call after it is written down. */
  readonly onUsage?: ((binding: TokenBinding, usage: TokenUsage) => void) | undefined;
}

interface FinishedCall {
  readonly binding: TokenBinding;
  readonly modelRequest: ModelRequest;
  readonly timing: CallTiming;
  readonly reader: ResponseUsageReader;
}

/** Also where the agent has gone in the middle: what was made for it was made. */
export async function chargeCall(
  parts: ChargingOptions,
  { binding, modelRequest, timing, reader }: FinishedCall,
): Promise<void> {
  const { rules, usage, log, onUsage } = parts;
  const { workedMs } = timing;
  if (workedMs === undefined) return;
  const unreported = {
    // As many as there can be: a token has a byte at least.
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

/** Tokens of one answer: more than the models of these providers make, of which the fastest make some hundreds. */
const MOST_PER_SECOND = 500;
/** How long a provider may keep producing after the client has gone. */
const NOTICED_MS = 2000;

export class CallTiming {
  readonly #clock: () => number;
  #heardAt: number | undefined;
  #refused = false;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** There is a connection: whatever comes of the request, the provider may have it. */
  sent(): void {
    this.#heardAt = this.#clock();
  }

  /** An answer that is an error, or leads elsewhere, is not charged for. */
  answered(status: number): void {
    this.#refused = status < 200 || status >= 300;
  }

  /** Since when the provider has the request; undefined if it has not got it, or has refused it. */
  get workedMs(): number | undefined {
    return this.#heardAt === undefined || this.#refused ? undefined : this.#clock() - this.#heardAt;
  }
}

/** Tokens of output. `isOver`: the answer has come to its end. */
export function maxProduced(
  { outputLimit: wanted, streamed }: Pick<ModelRequest, 'outputLimit' | 'streamed'>,
  { workedMs, isOver }: { readonly workedMs: number; readonly isOver: boolean },
): number {
  // An answer that is not a stream is always produced to its end.
  if (!isOver && !streamed) return wanted.tokens;
  const ms = Math.max(0, workedMs) + (isOver ? 0 : NOTICED_MS);
  return Math.min(wanted.tokens, Math.ceil((ms * MOST_PER_SECOND) / 1000) * wanted.answers);
}
