/** Enclosures for coding agents on an ordinary user's host. */

import { agentEnclosureContract } from '../contract/agent-enclosure.ts';
import { openSession } from '../support/session.ts';

agentEnclosureContract(async () => ({}), openSession);
