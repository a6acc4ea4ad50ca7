/** Which wheels a Python on Linux takes, by the C library that it was built for. */

import type { z } from 'zod';
import type { LibC } from './ask-image.ts';

/** Names from before the version of glibc was part of them. */
const LEGACY: Readonly<Record<number, string>> = { 17: 'manylinux2014', 12: 'manylinux2010', 5: 'manylinux1' };
/** Where the first standard for manylinux stood, by machine. */
const OLDEST: Readonly<Record<string, number>> = { x86_64: 5, i686: 5 };
const OLDEST_ELSEWHERE = 17;

/** Best first. */
export function wheelPlatforms(machine: string, libc: z.output<typeof LibC>): string[] {
  return [...(libc.name === 'musl' ? musl(machine, libc) : glibc(machine, libc)), `linux_${machine}`];
}

function glibc(machine: string, { version: [major, minor] }: z.output<typeof LibC>): string[] {
  const oldest = OLDEST[machine] ?? OLDEST_ELSEWHERE;
  // No wheel names another major version, and what one would mean is not known.
  if (major !== 2 || minor < oldest) return [];
  return countDown(minor, oldest).flatMap((each) => {
    const legacy = LEGACY[each];
    return [`manylinux_2_${each}_${machine}`, ...(legacy === undefined ? [] : [`${legacy}_${machine}`])];
  });
}

function musl(machine: string, { version: [major, minor] }: z.output<typeof LibC>): string[] {
  return countDown(minor, 0).map((each) => `musllinux_${major}_${each}_${machine}`);
}

function countDown(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, from - to + 1) }, (_, index) => from - index);
}
