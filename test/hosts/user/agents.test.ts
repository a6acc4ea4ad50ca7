/** The real Claude on an ordinary user's host: by way of a server, in both key modes. */

import { fileURLToPath } from 'node:url';
import { describe } from 'vitest';
import { agentContract } from '../../agents/contract.ts';
import { lyingProvider } from '../../agents/lying-provider-tests.ts';
import { agentSecrets } from '../../agents/secrets.ts';
import { servedEnvironment } from '../../agents/served.ts';
import { sharedProgram } from '../../support/agents/shared-agents.ts';
import { everything } from '../../support/run/depth.ts';

/** As it was built: what bundles it does not exist for this user. */
const runner = fileURLToPath(new URL('../../../dist/runner', import.meta.url));

describe('Claude, in the sandbox of an ordinary user', { timeout: 120_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => {
      const program = await sharedProgram('claude');
      const process = 'claude-agent-sdk-linux';
      return await servedEnvironment({ executor: 'subprocess', program, process, runner })(options);
    },
    ['server'],
  );
});

const here = { executor: 'subprocess', runner } as const;
for (const keys of ['gateway', 'just-in-time'] as const) {
  const how = keys === 'gateway' ? '' : ', with its key just in time';
  // With its key just in time, all lies reach the program.
  if (everything || keys === 'just-in-time')
    lyingProvider(`in the sandbox of an ordinary user${how}`, { keys, ...here, shows: 'a part' });
  agentSecrets(`Claude in the sandbox of an ordinary user${how}`, { keys, ...here });
  agentSecrets(`Claude of an ordinary user, without a sandbox${how}`, { keys, ...here, sandbox: 'off' });
}
