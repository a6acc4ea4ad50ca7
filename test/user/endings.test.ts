/** How hosts, templates and kernels end, on the host that these tests run on. */

import { endings } from '../support/endings.ts';
import { openSession } from '../support/session.ts';

endings(openSession);
