/** Enclosures for coding agents on an ordinary user's host. */

import { agentEnclosureContract } from '../../contract/environment/agent-environment.ts';
import { openSession } from '../../support/kernels/session.ts';

agentEnclosureContract(async () => ({}), openSession);
