/** State that survives, on the host that these tests run on. */

import { stateContract } from '../contract/state.ts';
import { openSession } from '../support/session.ts';

stateContract('subprocess', openSession, { templated: true, brief: true });
