/** Deps on the host that these tests run on, which is root's where they can be complete. */

import { describe } from 'vitest';
import { depsContract } from './deps.ts';

describe('deps', depsContract);
