import { describe } from 'vitest';
import { sharedProgram } from '../support/shared-agents.ts';
import { agentContract } from './contract.ts';
import { localPlace } from './local.ts';

describe('Claude, as a child of this process', { timeout: 120_000 }, () => {
  agentContract({ name: 'claude', model: 'claude-sonnet-5' }, async (options) => {
    return await localPlace('claude', await sharedProgram('claude'))(options);
  });
});
