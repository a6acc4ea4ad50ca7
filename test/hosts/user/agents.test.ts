/** The real Claude on an ordinary user's host: in the sandbox, by way of a server and through its gateway. */

import { fileURLToPath } from 'node:url';
import { describe } from 'vitest';
import { agentContract } from '../../agents/contract.ts';
import { servedPlace } from '../../agents/served.ts';
import { sharedProgram } from '../../support/agents/shared-agents.ts';

/** As it was built: what bundles it is not there for this user. */
const runner = fileURLToPath(new URL('../../../dist/runner', import.meta.url));

describe('Claude, in the sandbox of an ordinary user', { timeout: 120_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => {
      const program = await sharedProgram('claude');
      const process = 'claude-agent-sdk-linux';
      return await servedPlace({ executor: 'subprocess', program, process, runner })(options);
    },
    ['server'],
  );
});
