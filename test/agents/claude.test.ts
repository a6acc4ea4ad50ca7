/** The adapter of Claude by itself: what a server cannot ask it for. All of the contract, where everything is run. */

import { describe } from 'vitest';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { everything } from '../support/run/depth.ts';
import { agentContract } from './contract.ts';
import { localEnvironment } from './local.ts';

describe('Claude, as a child of this process', { timeout: 120_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => await localEnvironment('claude', await sharedProgram('claude'))(options),
    everything ? ['place', 'profile', 'agent', 'adapter'] : ['adapter'],
  );
});
