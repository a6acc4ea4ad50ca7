import { describe } from 'vitest';
import { agentContract } from './contract.ts';
import { localPlace } from './local.ts';

describe('Claude, in a process of its own', () => {
  agentContract(
    { name: 'claude', model: 'claude-sonnet-5' },
    localPlace('claude', process.env.CLAUDE_DIR ?? '/tmp/claude-try'),
  );
});
