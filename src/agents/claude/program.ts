/** Which program the Claude adapter is written for: this version and no other. */

import type { AgentProgram } from '../program.ts';

export const claudeProgram: AgentProgram = {
  agent: 'claude',
  title: 'Claude',
  packageName: '@anthropic-ai/claude-agent-sdk',
  version: '0.3.325',
  megabytes: 410,
};
