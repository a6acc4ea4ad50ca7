/** Ways out of a sandbox, on the host that these tests run on. */

import { describe } from 'vitest';
import { everything } from '../support/depth.ts';
import { escapeAttempts } from '../support/escape.ts';
import { kinds } from '../support/kinds.ts';

/** How a kernel came to be makes no difference to the user whose host it is: all of it is tried on a root host. */
const tried = everything ? kinds : kinds.filter(([, , what], at) => what !== 'kernel' || at === 0);

describe.each(tried)('%s', (_name, open, what) => escapeAttempts(open, what));
