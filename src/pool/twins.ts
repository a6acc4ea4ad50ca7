/** Twins: frozen forks of a kernel, each to become a kernel with the memory that it was forked with. */

import type { Kernel } from '../kernel/kernel.ts';
import type { Quarters } from './quarters.ts';

/** How long a twin may take to become a kernel. */
const WAKE_MS = 10_000;

/** Freezes the kernel as it is, and gives the number of the twin. */
export async function freeze(kernel: Kernel, quarters: Quarters): Promise<number> {
  const twin = quarters.nextTwin();
  await kernel.twin(twin);
  return twin;
}

/** A twin holds the memory of the code, which may have seen to it that it never becomes a kernel. */
export async function awake(kernel: Kernel): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), WAKE_MS);
  try {
    await kernel.ready;
  } finally {
    clearTimeout(timer);
  }
}
