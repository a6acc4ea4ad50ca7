/** How hosts, templates and kernels end, on the host that these tests run on. */

import { openSession } from '../../support/kernels/session.ts';
import { endings } from './endings.ts';

endings(openSession);
