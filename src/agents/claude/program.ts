/** The program and version that the Claude adapter is written for. */

import type { AgentProgram } from '../installed-programs.ts';

const PACKAGE = '@anthropic-ai/claude-agent-sdk';
const machines = ['linux-x64', 'linux-x64-musl', 'linux-arm64', 'linux-arm64-musl', 'darwin-x64', 'darwin-arm64'];

export const claudeProgram: AgentProgram = {
  agent: 'claude',
  title: 'Claude',
  packageName: PACKAGE,
  version: '0.3.325',
  megabytes: 410,
  parts: [[`${PACKAGE}/sdk.mjs`], machines.map((machine) => `${PACKAGE}-${machine}/claude`)],
};
