/** The real Claude in a hardened container without network, prompted by way of a server and through its gateway. */

import { describe } from 'vitest';
import { everything } from '../support/depth.ts';
import { canRunDocker } from '../support/docker.ts';
import { sharedProgram } from '../support/shared-agents.ts';
import { sharedEngineWithImage } from '../support/shared-docker.ts';
import { agentContract } from './contract.ts';
import { servedPlace } from './served.ts';

describe.skipIf(!canRunDocker)('Claude, in Docker', { timeout: 180_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => {
      const [program, engine] = await Promise.all([sharedProgram('claude'), sharedEngineWithImage()]);
      const session = { engine };
      return await servedPlace({ executor: 'container', program, process: 'claude-agent-sdk-linux', session })(options);
    },
    everything ? ['place', 'server', 'agent'] : ['place', 'server'],
  );
});
