/** An environment that a kernel and its forks share, and the snapshots (frozen forks) in it. Closed when its last kernel is released. */

import { randomInt } from 'node:crypto';
import type { KernelHost, KernelHostListener, StartKernelOptions } from '../environments/kernel-host.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';

/** Opens the environments of one agent key, one after the other. */
export interface EnvironmentSource {
  /** `fresh`: the key had no folder before, and so no saves. */
  open(): Promise<{ environment: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }>;
  launchOptions(): StartKernelOptions;
}

export class SharedEnvironment {
  readonly environment: KernelHost;
  readonly #listeners = new Set<KernelHostListener>();

  constructor(environment: KernelHost) {
    this.environment = environment;
    environment.listen({
      snapshotLost: (snapshot, outOfMemory) => {
        for (const listener of this.#listeners) listener.snapshotLost(snapshot, outOfMemory);
      },
      // Which of its kernels it was cannot be seen from outside.
      networkDenied: (attempt) => {
        for (const listener of this.#listeners) listener.networkDenied(attempt);
      },
    });
  }

  /** Returns the function that releases it. The last release closes the environment. */
  retain(listener: KernelHostListener): () => Promise<void> {
    this.#listeners.add(listener);
    return async () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) await this.environment.close();
    };
  }

  /** Whether at most one kernel runs here. */
  get unshared(): boolean {
    return this.#listeners.size <= 1;
  }

  /** Unpredictable: code that could guess it could put a process of its own in place of the snapshot. */
  newSnapshotId(): number {
    return randomInt(1, 2 ** 31);
  }

  launch(options: StartKernelOptions): Promise<KernelConnection> {
    return this.environment.startKernel(options);
  }
}

/** How long a snapshot may take to become a kernel. */
const SNAPSHOT_READY_MS = 10_000;
/** How long a new kernel may take to be ready, on the busiest machine. No user code runs before. */
const HELLO_MS = 60_000;

/** Freezes a fork of the kernel, and returns its number. */
export async function takeSnapshot(kernel: Kernel, shared: SharedEnvironment): Promise<number> {
  const snapshot = shared.newSnapshotId();
  await kernel.takeSnapshot(snapshot);
  return snapshot;
}

/**
 * Kills a kernel that does not become ready: a snapshot holds the memory of user code, which may keep it from becoming a
 * kernel, and the process that starts kernels may have been stopped.
 */
export async function waitReady(kernel: Kernel, { fromSnapshot }: { readonly fromSnapshot: boolean }): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), fromSnapshot ? SNAPSHOT_READY_MS : HELLO_MS);
  try {
    await kernel.ready;
  } finally {
    clearTimeout(timer);
  }
}
