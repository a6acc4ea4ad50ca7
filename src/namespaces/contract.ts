/** What a call of the code needs of the host, and how the host describes what it can be asked. */

import type { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { PyValue } from '../protocol/kernel-marshal.ts';

export interface CallContext {
  /** Aborted when the code no longer waits for the reply. */
  readonly signal: AbortSignal;
  /** One line on how far long work is, for whoever reads the events of the cell. */
  progress(text: string): void;
  /** Waits for a person: the time of the cell stands still meanwhile. */
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
  /** Whoever calls has allowed it; never set for the code of a kernel. */
  readonly approved?: boolean;
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
  return {
    perform: async (given, context) => {
      const checked = params.safeParse(given);
      if (checked.success) return await work(checked.data, context);
      const problems = checked.error.issues.map(({ path, message }) => `${path.join('.') || 'parameters'}: ${message}`);
      throw new CellaError('INVALID_OPTIONS', `This call cannot be carried out: ${problems.slice(0, 5).join('; ')}.`);
    },
  };
}
