/** Installs several requirements: all together where that works, else those that do, one after the other. */

import type { Requirement } from '../../protocol/requirement.ts';
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
  /** Of all that was there before and what was installed; null where nothing was installed. */
  readonly set: string | null;
}

/** `wanted` is in addition to `before`, or in place of what is asked of the same package there. */
export async function installWhatWorks(
  sets: PackageSets,
  before: readonly Requirement[],
  wanted: readonly Requirement[],
  waiter: Waiter,
): Promise<WhatWorks> {
  if (wanted.length === 0) return { installed: [], failed: [], set: null };
  const together = await sets.build(textsOf(merge(before, wanted)), waiter);
  if (together.kind === 'built') return { installed: textsOf(wanted), failed: [], set: together.set };
  if (wanted.length > 1 && together.scope === 'some') return await oneByOne(sets, before, wanted, waiter);
  const failed = wanted.map(({ text }) => ({ requirement: text, reason: together.reason }));
  return { installed: [], failed, set: null };
}

async function oneByOne(
  sets: PackageSets,
  before: readonly Requirement[],
  wanted: readonly Requirement[],
  waiter: Waiter,
): Promise<WhatWorks> {
  const installed: Requirement[] = [];
  const failed: FailedRequirement[] = [];
  let best: Ready | undefined;
  try {
    for (const requirement of wanted) {
      const tried = await sets.attempt(textsOf(merge(before, [...installed, requirement])), waiter);
      if (tried.kind === 'failed') {
        failed.push({ requirement: requirement.text, reason: tried.reason });
        continue;
      }
      await best?.[Symbol.asyncDispose]();
      best = tried;
      installed.push(requirement);
    }
    const set = best ? await sets.keep(textsOf(merge(before, installed)), best) : null;
    return { installed: textsOf(installed), failed, set };
  } finally {
    await best?.[Symbol.asyncDispose]();
  }
}

function merge(before: readonly Requirement[], wanted: readonly Requirement[]): Requirement[] {
  return [...before.filter(({ name }) => !wanted.some((one) => one.name === name)), ...wanted];
}

function textsOf(requirements: readonly Requirement[]): string[] {
  return requirements.map(({ text }) => text);
}
