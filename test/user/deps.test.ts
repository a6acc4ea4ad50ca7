/** Deps on an ordinary user's host, where the installer runs as that user. */

import { describe } from 'vitest';
import { depsContract } from '../contract/deps.ts';
import { depsFaults } from '../contract/deps-faults.ts';
import { depsInstallers } from '../contract/deps-installers.ts';
import { depsTogether } from '../contract/deps-together.ts';

describe('deps', depsContract);
describe('deps, where something is wrong', depsFaults);
describe('deps, changed by several at once', depsTogether);
describe('the installers of deps', depsInstallers);
