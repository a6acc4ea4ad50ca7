/** What every executor's kernels can do with tools, skills, artifacts and deps, on every storage. */

import { describe } from 'vitest';
import type { Storage } from '../../../src/index.ts';
import type { Open } from '../../support/kernels/session.ts';
import { namespaceArtifacts } from './artifacts.ts';
import { namespaceCalls } from './calls.ts';
import { namespaceDeps } from './deps.ts';
import { namespaceServices } from './services.ts';
import { namespaceSkills } from './skills.ts';
import { namespaceTools } from './tools.ts';

export interface Place {
  readonly open: Open;
  /** Another storage each time, that nothing is in. The suite closes it. */
  readonly openStorage: () => Promise<Storage>;
  /** Only what differs from executor to executor and from storage to storage; packages are the matter of the matrix. */
  readonly short?: boolean;
}

export function namespacesContract(name: string, place: Place): void {
  describe(`namespaces on ${name}`, () => {
    namespaceCalls(place);
    namespaceTools(place);
    namespaceSkills(place);
    namespaceArtifacts(place);
    if (place.short) return;
    namespaceServices(place);
    namespaceDeps(place);
  });
}
