/** Ways out of a sandbox, on the host that these tests run on. */

import { describe } from 'vitest';
import { escapeAttempts } from '../support/escape.ts';
import { kinds } from '../support/kinds.ts';

describe.each(kinds)('%s', (_name, open, what) => escapeAttempts(open, what));
