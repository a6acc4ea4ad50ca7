/** Brings the last save back into a fresh kernel: the newest that can be read, with word of what did not come back. */

import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Woken } from '../protocol/execution-events.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import { type Archive, lostByTheCode } from './archive.ts';
import type { Life } from './life.ts';
import type { Place } from './quarters.ts';

export interface Sources {
  /** Newest first. */
  readonly saves: readonly Manifest[];
  readonly archive: Archive;
  readonly place: Place;
}

/** Tries the saves one by one: one that is damaged, or ends its kernel, must not keep the agent from going on. */
export async function wake(life: Life, link: KernelConnection, { saves, archive, place }: Sources): Promise<Kernel> {
  const quarters = life.home;
  const before = life.next;
  const { cause } = life;
  let kernel = await life.welcome(link, undefined);
  let told: Woken | undefined;
  try {
    for (const save of saves) {
      life.expectEnd();
      const savedAgoMs = archive.age(save);
      try {
        const { restored, lost } = await archive.read(kernel, save);
        const all = [...lost, ...save.lost.filter(({ name }) => !lost.some((one) => one.name === name))];
        told = { savedAgoMs, restored, lost: all };
        life.executions = Math.max(life.executions, save.execution);
        break;
      } catch (error) {
        const unusable = lostByTheCode(error) || (error instanceof CellaError && error.code === 'CHECKPOINT_DAMAGED');
        if (!unusable) throw error;
        const reason = `it could not be loaded: ${error.message}`;
        told ??= { savedAgoMs, restored: [], lost: [...save.saved.map((name) => ({ name, reason })), ...save.lost] };
        if (kernel.dead) kernel = await life.welcome(await quarters.launch(place.begin()), undefined);
      }
    }
  } catch (error) {
    // Whoever tries next begins with the saves again.
    const death = cause ?? kernel.dead;
    life.next = death ? { kind: 'died', cause: death } : before;
    throw error;
  } finally {
    life.expectEnd(false);
  }
  if (told) kernel.notice = cause ? { recovered: { ...told, cause } } : { woken: told };
  if (kernel.dead) life.mourn(kernel, quarters, kernel.dead);
  return kernel;
}
