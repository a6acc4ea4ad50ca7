/** Writes down what a call came to: as the provider has told it, else the most that it may charge. */

import type { TokenUsage } from '../../protocol/turn.ts';
import type { TokenBinding } from '../access/session-tokens.ts';
import type { Logger } from '../http/logs.ts';
import type { Asked } from './asked.ts';
import { type Course, madeAtMost } from './course.ts';
import { dearest } from './estimate.ts';
import { costOf } from './prices.ts';
import type { GatewayRules } from './settings.ts';
import type { UsageLedger } from './usage.ts';
import type { UsageReader } from './usage-reader.ts';

export interface AccountParts {
  readonly rules: GatewayRules;
  readonly usage: Pick<UsageLedger, 'add'>;
  readonly log?: Logger | undefined;
  /** Told of each call after it is written down. */
  readonly onUsage?: ((binding: TokenBinding, usage: TokenUsage) => void) | undefined;
}

export interface Made {
  readonly binding: TokenBinding;
  readonly asked: Asked;
  readonly course: Course;
  readonly reader: UsageReader;
}

/** Also where the agent has gone in the middle: what was made for it was made. */
export async function account(parts: AccountParts, { binding, asked, course, reader }: Made): Promise<void> {
  const { rules, usage, log, onUsage } = parts;
  const { workedMs } = course;
  if (workedMs === undefined) return;
  const untold = {
    // As many as there can be: a token has a byte at least.
    input: asked.body?.length ?? 0,
    output: madeAtMost(asked, { workedMs, isOver: reader.isOver }),
  };
  const { counts, model = asked.model, told } = reader.reading(untold);
  const price = rules.priceOf(model ?? '') ?? rules.priceOf(asked.model ?? '');
  const used: TokenUsage = {
    ...counts,
    ...(price ? { costUsd: costOf(counts, told.input ? price : dearest(price)) } : {}),
    ...(model === undefined ? {} : { model: model.slice(0, 200) }),
  };
  const estimated = !told.input || !told.output;
  await usage.add(binding, { usage: used, estimated });
  const { session, task, userId } = binding;
  log?.info({ session, task, userId, ...used, estimated }, 'model call');
  onUsage?.(binding, used);
}
