/** A DepsStore in memory, for tests of what is built on one. */

import { parseRequirement } from '../../src/protocol/requirement.ts';
import type { DepsStore } from '../../src/storage/contract.ts';

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
