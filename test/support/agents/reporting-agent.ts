/** A second agent of the scripted runner, which says on stderr that it was loaded. */

import type { AgentAdapter } from '../../../src/agents/agent-adapter.ts';
import { scripted } from './scripted-agent.ts';

console.error('the telling agent is loaded');

export const telling: AgentAdapter = { ...scripted, name: 'telling' };
