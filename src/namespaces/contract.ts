/** What a call of the code needs of the host, and how the host describes what it can be asked. */

import type { z } from 'zod';
import type { PyValue } from '../protocol/values.ts';

export interface CallContext {
  /** Aborted when the code no longer waits for the reply. */
  readonly signal: AbortSignal;
  /** One line on how far long work is, for whoever reads the events of the cell. */
  progress(text: string): void;
  /** Waits for a person: the time of the cell stands still meanwhile. */
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
}

/** One thing that the code can ask for: its parameters, checked, and the work. The code is hostile. */
export interface Method {
  perform(params: unknown, context: CallContext): Promise<PyValue>;
}

/** By name, as in the call: `tools.list`. */
export type Methods = Readonly<Record<string, Method>>;

export function method<T>(
  params: z.ZodType<T>,
  work: (params: T, context: CallContext) => Promise<PyValue> | PyValue,
): Method {
  return { perform: async (given, context) => await work(params.parse(given), context) };
}
