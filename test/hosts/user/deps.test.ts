/** Deps on an ordinary user's host, where the installer runs as that user: what depends on who owns the files. */

import { describe } from 'vitest';
import { depsTogether } from '../../contract/deps/concurrency.ts';
import { foreignContract } from '../../contract/deps/foreign.ts';
import { depsInstallers } from '../../contract/deps/installers.ts';
import { depsStops } from '../../contract/deps/interrupted.ts';
import { depsSets } from '../../contract/deps/sets.ts';

describe('the sets of deps', depsSets);
describe('the installers of deps', depsInstallers);
describe('packages for another Python, without an installer', () => foreignContract('', /^cella$/));
describe('an install that is stopped', depsStops);
describe('deps, changed by several callers at once', depsTogether);
