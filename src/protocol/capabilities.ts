/** What an executor can do beyond running code: whatever is not named here, all of them can. */

export interface Capabilities {
  /** `threading` starts threads. */
  readonly threads: boolean;
  /** `subprocess`, `os.system` and tools that run beside the code. */
  readonly subprocesses: boolean;
  /** An interrupt ends `time.sleep` at once. */
  readonly interruptSleep: boolean;
  /** A rollback takes everything back: also what was changed in place, in modules and in the process. */
  readonly trueRollback: boolean;
  /** A second kernel with the same memory. */
  readonly liveFork: boolean;
}

export const ALL_CAPABILITIES: Capabilities = {
  threads: true,
  subprocesses: true,
  interruptSleep: true,
  trueRollback: true,
  liveFork: true,
};

/** Python in WebAssembly: no threads, no processes, and nothing to fork. */
export const IN_PROCESS_CAPABILITIES: Capabilities = {
  threads: false,
  subprocesses: false,
  interruptSleep: true,
  trueRollback: false,
  liveFork: false,
};

export const executorKinds = ['subprocess', 'container', 'in-process'] as const;
export type ExecutorKind = (typeof executorKinds)[number];

/** `auto` is what a session gets where it does not say. */
export function executorOf(wanted: ExecutorKind | 'auto'): ExecutorKind {
  return wanted === 'auto' ? 'subprocess' : wanted;
}

export function capabilitiesOf(kind: ExecutorKind): Capabilities {
  return kind === 'in-process' ? IN_PROCESS_CAPABILITIES : ALL_CAPABILITIES;
}
