/** Limits that bite, on the host that these tests run on. */

import { openSession } from '../../support/kernels/session.ts';
import { resourceFaults } from './resources.ts';

resourceFaults(openSession);
