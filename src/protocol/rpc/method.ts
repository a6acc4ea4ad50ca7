/** What can be called across a connection: the schema is the type. */

import type { z } from 'zod';

/** A request with its reply. */
export interface RpcMethod<P extends z.ZodType = z.ZodType, R extends z.ZodType = z.ZodType> {
  readonly method: string;
  readonly params: P;
  readonly result: R;
}

/** Said, not asked: nobody is told what came of it. */
export interface RpcNotification<P extends z.ZodType = z.ZodType> {
  readonly method: string;
  readonly params: P;
}
