/** The Idempotency-Key of a request, checked. */

import { IdempotencyKey } from '../../protocol/api/execution-routes.ts';
import type { ExchangeContext } from './exchange.ts';
import { invalid } from './failure.ts';

export function idempotencyKeyOf(context: ExchangeContext): string | undefined {
  const given = context.req.header('idempotency-key');
  if (given === undefined) return undefined;
  const parsed = IdempotencyKey.safeParse(given);
  if (parsed.success) return parsed.data;
  throw invalid(parsed.error);
}
