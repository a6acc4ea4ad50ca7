/** Packages for Pythons that are not the host's: of containers, and in WebAssembly; with the host's pip and without any. */

import { dirname } from 'node:path';
import { describe } from 'vitest';
import { PYTHON } from '../../support/packages/deps.ts';
import { foreignContract } from './foreign.ts';
import { foreignIndex } from './foreign-index.ts';

describe.each([
  ['pip', dirname(PYTHON), /^pip \d/],
  ['no installer', '', /^cella$/],
] as const)('packages for another Python, with %s on the host', (_name, searchPath, installer) => {
  foreignContract(searchPath, installer);
});
describe('an index, without an installer', foreignIndex);
