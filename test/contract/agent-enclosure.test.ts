/** Enclosures for coding agents, in the sandbox and in Docker. */

import { describe, expect, test } from 'vitest';
import { openAgent } from '../support/agent-enclosure.ts';
import { openContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { openSession } from '../support/session.ts';
import { sharedEngineWithImage } from '../support/shared-docker.ts';
import { agentEnclosureContract } from './agent-enclosure.ts';

describe('in the sandbox', () => {
  agentEnclosureContract(async () => ({}), openSession);
});

describe.skipIf(!canRunDocker)('with Docker', () => {
  agentEnclosureContract(async () => ({ executor: 'container', engine: await sharedEngineWithImage() }), openContainer);
});

test('where code is not kept from the host, there is none', async () => {
  const refused = { code: 'CAPABILITY_MISSING' };
  await expect(openAgent({ session: { sandbox: 'off' } })).rejects.toMatchObject(refused);
  await expect(openAgent({ session: { executor: 'in-process' } })).rejects.toMatchObject(refused);
});
