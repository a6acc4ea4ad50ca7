/** Sandboxes of coding agents on an ordinary user's host. */

import { agentSandboxContract } from '../../contract/environment/agent-environment.ts';
import { openSession } from '../../support/kernels/session.ts';

agentSandboxContract(async () => ({}), openSession);
