/** Deps on the host that these tests run on, which is root's where they can be complete. */

import { describe } from 'vitest';
import { depsContract } from './deps.ts';
import { depsCode } from './deps-code.ts';
import { depsFaults } from './deps-faults.ts';
import { depsInstallers } from './deps-installers.ts';
import { depsSets } from './deps-sets.ts';
import { depsStops } from './deps-stops.ts';
import { depsTogether } from './deps-together.ts';

describe('deps', depsContract);
describe('the sets of deps', depsSets);
describe('the installers of deps', depsInstallers);
describe('deps, where something is wrong', depsFaults);
describe('code in packages', depsCode);
describe('an install that is stopped', depsStops);
describe('deps, changed by several at once', depsTogether);
