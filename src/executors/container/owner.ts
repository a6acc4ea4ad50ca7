/** Whose a container is, as its labels say: that tells what a process that was killed has left behind. */

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';

/** One process, told apart from any other that has, had or will have its pid. */
export interface Owner {
  /** A word for this process. */
  readonly self: string;
  /** What has become of another. `unseen`: it runs, or ran, where this process cannot see it. */
  look(owner: string): 'alive' | 'dead' | 'unseen';
}

export const LABEL = { cella: 'cella', data: 'cella.data', owner: 'cella.owner', number: 'cella.number' } as const;

export function labelsOf(dataDir: string, owner: string): Record<string, string> {
  return { [LABEL.cella]: '1', [LABEL.data]: dataId(dataDir), [LABEL.owner]: owner };
}

/** One word for a data folder; the folder itself stays unnamed. */
export function dataId(dataDir: string): string {
  return createHash('sha256').update(realpathSync.native(dataDir)).digest('hex').slice(0, 32);
}
