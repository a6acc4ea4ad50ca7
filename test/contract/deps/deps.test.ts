/** Deps on the host that these tests run on, which is root's where they can be complete. */

import { describe } from 'vitest';
import { depsCode } from './code.ts';
import { depsTogether } from './concurrency.ts';
import { depsContract } from './deps.ts';
import { depsFaults } from './faults.ts';
import { depsInstallers } from './installers.ts';
import { depsStops } from './interrupted.ts';
import { depsSets } from './sets.ts';

describe('deps', depsContract);
describe('the sets of deps', depsSets);
describe('the installers of deps', depsInstallers);
describe('deps, with faults', depsFaults);
describe('code in packages', depsCode);
describe('an install that is stopped', depsStops);
describe('deps, changed by several callers at once', depsTogether);
