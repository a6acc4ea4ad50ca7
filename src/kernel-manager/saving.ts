/** What is saved from: a copy of the kernel beside its work, or the kernel itself, where it has nothing else to do any more. */

import { Kernel } from '../kernel/kernel.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import { lostByTheCode } from './archive.ts';
import type { Life } from './life.ts';
import type { Frozen, Saver } from './saver.ts';
import { awake, freeze } from './twins.ts';

/** A fork of the kernel as it is between two cells. Undefined where there is nothing to save now, or it has saved itself. */
export async function copyToSave(life: Life, saver: Saver, frozen: () => void): Promise<Frozen | undefined> {
  const { kernel, executions: execution } = life;
  if (!kernel?.idle || life.transaction.open !== undefined) return undefined;
  const quarters = life.home;
  if (quarters.enclosure.forkless) {
    await saver.flush(kernel, execution);
    return undefined;
  }
  try {
    const twin = await freeze(kernel, quarters);
    const link = await quarters.launch({ env: {}, from: { twin, keep: false } });
    const copy = new Kernel(link, { background: () => {} });
    await awake(copy, { fromTwin: true });
    frozen();
    return { kernel: copy, execution };
  } catch (error) {
    if (!(error instanceof CellaError) || error.code !== 'FORK_UNSAFE') throw error;
    // Threads run: it saves itself, and whoever comes next waits.
    await saver.flush(kernel, execution);
    return undefined;
  }
}

/** The last save of a kernel that is about to end. */
export async function saveInPlace({ kernel, executions }: Life, saver: Saver): Promise<void> {
  try {
    if (kernel) await saver.flush(kernel, executions);
  } catch (error) {
    // By the code's own doing: whoever wakes the kernel next hears how old its last save is.
    if (!lostByTheCode(error)) throw error;
  }
}

/** A durable checkpoint of this moment. */
export async function saveCheckpoint(
  kernel: Kernel,
  saver: Saver,
  purpose: { readonly execution: number; readonly name?: string },
): Promise<Manifest> {
  try {
    return await saver.write(kernel, { kind: 'checkpoint', ...purpose });
  } catch (cause) {
    // It may have died before it was asked: then it is not idle, but nothing runs either.
    const busy = cause instanceof CellaError && cause.code === 'KERNEL_BUSY';
    throw busy && kernel.dead ? new CellaError(kernel.dead.code, kernel.dead.message, { cause }) : cause;
  }
}
