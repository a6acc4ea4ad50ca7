/** Twins: frozen forks of a kernel, each to become a kernel with the memory that it was forked with. */

import type { Kernel } from '../kernel/kernel.ts';
import type { Quarters } from './quarters.ts';

/** How long a twin may take to become a kernel. */
const WAKE_MS = 10_000;
/** How long a new kernel may take to say hello, on the busiest machine. None of its user's code runs before. */
const HELLO_MS = 60_000;

/** Freezes the kernel as it is, and gives the number of the twin. */
export async function freeze(kernel: Kernel, quarters: Quarters): Promise<number> {
  const twin = quarters.nextTwin();
  await kernel.takeSnapshot(twin);
  return twin;
}

/**
 * A twin holds the memory of the code, which may have seen to it that it never becomes a kernel. And who starts kernels
 * may have been stopped.
 */
export async function awake(kernel: Kernel, { fromTwin }: { readonly fromTwin: boolean }): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), fromTwin ? WAKE_MS : HELLO_MS);
  try {
    await kernel.ready;
  } finally {
    clearTimeout(timer);
  }
}
