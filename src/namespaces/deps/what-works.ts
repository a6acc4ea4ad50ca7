/** Installs several requirements: all together where that works, else those that do, one after the other. */

import type { Ready } from './build.ts';
import type { PackageSets } from './sets.ts';
import type { Waiter } from './shared-work.ts';

export interface FailedRequirement {
  readonly requirement: string;
  readonly reason: string;
}

export interface WhatWorks {
  readonly installed: readonly string[];
  readonly failed: readonly FailedRequirement[];
  /** Of `base` and what was installed. Null where that is nothing, or where nothing was. */
  readonly set: string | null;
}

export async function installWhatWorks(
  sets: PackageSets,
  base: readonly string[],
  wanted: readonly string[],
  waiter: Waiter,
): Promise<WhatWorks> {
  if (base.length + wanted.length === 0) return { installed: [], failed: [], set: null };
  const together = await sets.build([...base, ...wanted], waiter);
  if (together.kind === 'built') return { installed: wanted, failed: [], set: together.set };
  if (wanted.length > 1 && together.scope === 'some') return await oneByOne(sets, base, wanted, waiter);
  const failed = wanted.map((requirement) => ({ requirement, reason: together.reason }));
  return { installed: [], failed, set: base.length === 0 ? null : ((await sets.find(base)) ?? null) };
}

async function oneByOne(
  sets: PackageSets,
  base: readonly string[],
  wanted: readonly string[],
  waiter: Waiter,
): Promise<WhatWorks> {
  const installed: string[] = [];
  const failed: FailedRequirement[] = [];
  let best: Ready | undefined;
  try {
    for (const requirement of wanted) {
      const tried = await sets.attempt([...base, ...installed, requirement], waiter);
      if (tried.kind === 'failed') {
        failed.push({ requirement, reason: tried.reason });
        continue;
      }
      await best?.[Symbol.asyncDispose]();
      best = tried;
      installed.push(requirement);
    }
    const kept = [...base, ...installed];
    const set = best ? await sets.keep(kept, best) : ((await sets.find(kept)) ?? null);
    return { installed, failed, set };
  } finally {
    await best?.[Symbol.asyncDispose]();
  }
}
