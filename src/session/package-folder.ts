/** The folder of all package sets: most sessions find it there, and empty, and hardly look. */

import { mkdirSync, readdirSync, type Stats, statSync } from 'node:fs';
import { isStable } from '../storage/file/durable-files.ts';

/** What changes with every entry that comes. */
export type FolderFacts = Pick<Stats, 'dev' | 'ino' | 'mtimeMs' | 'ctimeMs'> | undefined;

/** By path: what was known of a folder when it was seen to be empty, long after its last change. */
const empty = new Map<string, string>();

/** Made where it is missing. */
export function findPackageFolder(path: string): FolderFacts {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory()) return facts;
  mkdirSync(path, { recursive: true, mode: 0o755 });
  return undefined;
}

/** Whether any package set was ever made there. */
export function hasEntries(path: string, facts: FolderFacts): boolean {
  const told = facts && [facts.dev, facts.ino, facts.mtimeMs, facts.ctimeMs].join(' ');
  if (told !== undefined && empty.get(path) === told) return false;
  const found = readdirSync(path).length > 0;
  if (!found && facts && told !== undefined && isStable(facts)) empty.set(path, told);
  return found;
}
