/** The real Claude in the no-network sandbox of its session, prompted by way of a server and through its gateway. */

import { describe } from 'vitest';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { agentContract } from './contract.ts';
import { servedEnvironment } from './served.ts';

describe('Claude, in the sandbox', { timeout: 120_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => {
      const program = await sharedProgram('claude');
      return await servedEnvironment({ executor: 'subprocess', program, process: 'claude-agent-sdk-linux' })(options);
    },
    ['place', 'server', 'profile', 'agent'],
  );
});
