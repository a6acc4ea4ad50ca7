/** An environment that a kernel and its forks share, and the snapshots (frozen forks) in it. Closed when its last kernel is released. */

import { randomInt } from 'node:crypto';
import type { KernelHost, StartKernelOptions } from '../environments/kernel-host.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';

/** Makes the first enclosure of an agent, or another after the last one ended. */
export interface EnvironmentSource {
  /** `fresh`: the agent had no folder before, and so nothing else. */
  open(): Promise<{ enclosure: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }>;
  /** What a kernel is to begin with. */
  launchOptions(): StartKernelOptions;
}

/** Who lives there is told what happens there. */
type EnvironmentListener = Pick<KernelHost, 'onGone' | 'onDenied'>;

export class SharedEnvironment {
  readonly environment: KernelHost;
  readonly #listeners = new Set<EnvironmentListener>();

  constructor(enclosure: KernelHost) {
    this.environment = enclosure;
    enclosure.onGone = (snapshot, outOfMemory) => {
      for (const listener of this.#listeners) listener.onGone(snapshot, outOfMemory);
    };
    // Which of them it was, nobody can tell from outside.
    enclosure.onDenied = (attempt) => {
      for (const listener of this.#listeners) listener.onDenied(attempt);
    };
  }

  /** Whoever moves in must move out: with the last one the enclosure ends. */
  retain(listener: EnvironmentListener): () => Promise<void> {
    this.#listeners.add(listener);
    return async () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) await this.environment.close();
    };
  }

  /** Whether only one kernel lives here. */
  get unshared(): boolean {
    return this.#listeners.size <= 1;
  }

  /** A number that the code cannot foretell: it could put a process of its own in the place of the twin. */
  newSnapshotId(): number {
    return randomInt(1, 2 ** 31);
  }

  launch(options: StartKernelOptions): Promise<KernelConnection> {
    return this.environment.startKernel(options);
  }
}

/** How long a twin may take to become a kernel. */
const SNAPSHOT_READY_MS = 10_000;
/** How long a new kernel may take to say hello, on the busiest machine. None of its user's code runs before. */
const HELLO_MS = 60_000;

/** Freezes the kernel as it is, and gives the number of the twin. */
export async function takeSnapshot(kernel: Kernel, shared: SharedEnvironment): Promise<number> {
  const snapshot = shared.newSnapshotId();
  await kernel.takeSnapshot(snapshot);
  return snapshot;
}

/**
 * A twin holds the memory of the code, which may have seen to it that it never becomes a kernel. And who starts kernels
 * may have been stopped.
 */
export async function waitReady(kernel: Kernel, { fromSnapshot }: { readonly fromSnapshot: boolean }): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), fromSnapshot ? SNAPSHOT_READY_MS : HELLO_MS);
  try {
    await kernel.ready;
  } finally {
    clearTimeout(timer);
  }
}
