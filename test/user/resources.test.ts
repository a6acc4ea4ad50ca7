/** Limits that bite, on the host that these tests run on. */

import { resourceFaults } from '../support/bombs.ts';
import { openSession } from '../support/session.ts';

resourceFaults(openSession);
