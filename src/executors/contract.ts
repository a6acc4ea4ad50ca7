/** Executor: where kernels run. One contract, whatever stands between host and interpreter. */

import type { KernelLink } from '../kernel/link.ts';
import type { LaunchSpec } from '../sandbox/spec.ts';

/** A closed place in which one kernel at a time lives; it outlives its kernels. */
export interface Enclosure {
  /** Starts a kernel. The one before must have exited. */
  launch(): Promise<KernelLink>;
  /** The process, as the host sees it, that everything in here descends from. */
  readonly pid: number;
  /** Why it could not be closed around its first process, if it could not. */
  readonly failure: Error | undefined;
  /** Whether it can still launch. */
  readonly alive: boolean;
  close(): Promise<void>;
}

export interface Executor {
  open(spec: LaunchSpec): Promise<Enclosure>;
  /** Keeps this many enclosures ready for `open`. */
  keepSpares(count: number): Promise<void>;
  close(): Promise<void>;
}
