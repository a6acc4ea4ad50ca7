/** Limits that bite, on the host that these tests run on. */

import { resourceFaults } from '../../faults/kernel/resources.ts';
import { openSession } from '../../support/kernels/session.ts';

resourceFaults(openSession);
