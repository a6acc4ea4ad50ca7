/** Ways out of a sandbox, on the host that these tests run on. */

import { describe } from 'vitest';
import { escapeAttempts } from './escape.ts';
import { kinds } from './kernel-origins.ts';

describe.each(kinds)('%s', (_name, open, what) => escapeAttempts(open, what));
