/** Deps on the host that these tests run on, which is root's where they can be complete. */

import { describe } from 'vitest';
import { depsContract } from './deps.ts';
import { depsFaults } from './deps-faults.ts';
import { depsInstallers } from './deps-installers.ts';
import { depsTogether } from './deps-together.ts';

describe('deps', depsContract);
describe('deps, where something is wrong', depsFaults);
describe('deps, changed by several at once', depsTogether);
describe('the installers of deps', depsInstallers);
