/** Ways out of a sandbox, on the host that these tests run on. */

import { escapeAttempts } from '../support/escape.ts';
import { openSession } from '../support/session.ts';

escapeAttempts(openSession);
