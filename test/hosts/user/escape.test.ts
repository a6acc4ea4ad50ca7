/** Ways out of a sandbox, on the host that these tests run on. */

import { describe } from 'vitest';
import { escapeAttempts } from '../../escape/escape.ts';
import { kinds } from '../../escape/kernel-origins.ts';
import { everything } from '../../support/run/depth.ts';

/** How a kernel came to be makes no difference to the user whose host it is: all of it is tried on a root host. */
const tried = everything ? kinds : kinds.filter(([, , what], at) => what !== 'kernel' || at === 0);

describe.each(tried)('%s', (_name, open, what) => escapeAttempts(open, what));
