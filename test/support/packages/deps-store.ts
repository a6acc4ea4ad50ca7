/** Stores of requirements for tests: in memory, and in a folder that several processes share. */

import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseRequirement } from '../../../src/protocol/requirement.ts';
import type { DepsStore } from '../../../src/storage/contract.ts';

export function memoryDeps(...requirements: string[]): DepsStore {
  const byName = new Map(requirements.map((text) => [parseRequirement(text).name, parseRequirement(text).text]));
  return {
    list: async () => [...byName.keys()].toSorted().map((name) => byName.get(name) ?? ''),
    add: async (requirement) => {
      const { name, text } = parseRequirement(requirement);
      if (byName.get(name) === text) return false;
      byName.set(name, text);
      return true;
    },
    remove: async (name) => byName.delete(parseRequirement(name).name),
  };
}

/** A file for each package. */
export function folderDeps(folder: string): DepsStore {
  return {
    list: async () => {
      await mkdir(folder, { recursive: true });
      const names = (await readdir(folder)).filter((name) => !name.startsWith('.'));
      return await Promise.all(names.toSorted().map((name) => readFile(join(folder, name), 'utf8')));
    },
    add: async (requirement) => {
      const { name, text } = parseRequirement(requirement);
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, `.${process.pid}`), text);
      await rename(join(folder, `.${process.pid}`), join(folder, name));
      return true;
    },
    remove: async (name) => {
      await rm(join(folder, parseRequirement(name).name));
      return true;
    },
  };
}
