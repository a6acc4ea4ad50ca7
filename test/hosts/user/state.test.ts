/** State that survives, on the host that these tests run on. */

import { stateContract } from '../../contract/state/state.ts';
import { openSession } from '../../support/kernels/session.ts';

stateContract('subprocess', openSession, { templated: true, brief: true });
