/** How hosts, templates and kernels end, on the host that these tests run on. */

import { endings } from '../../faults/kernel/endings.ts';
import { openSession } from '../../support/kernels/session.ts';

endings(openSession);
