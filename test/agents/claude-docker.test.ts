/**
 * The real Claude in a hardened container without network, prompted by way of a server and through its gateway. Its user
 * is another than the server's, whose umask here keeps all others out: what the server makes for it is opened on purpose.
 */

import { describe } from 'vitest';
import { sharedProgram } from '../support/agents/shared-agents.ts';
import { canRunDocker } from '../support/docker/docker.ts';
import { sharedEngineWithImage } from '../support/docker/shared-docker.ts';
import { bundledRunner } from '../support/servers/agent-server.ts';
import { agentContract } from './contract.ts';
import { servedEnvironment } from './served.ts';

describe.skipIf(!canRunDocker)('Claude, in Docker, at a server with umask 077', { timeout: 180_000 }, () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    async (options) => {
      const [program, engine, runner] = await Promise.all([
        sharedProgram('claude'),
        sharedEngineWithImage(),
        bundledRunner(),
      ]);
      process.umask(0o077);
      const session = { engine };
      return await servedEnvironment({
        executor: 'container',
        program,
        process: 'claude-agent-sdk-linux',
        runner,
        session,
      })(options);
    },
    ['place', 'server', 'profile', 'agent'],
  );
});
