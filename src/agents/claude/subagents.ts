/** Which lines of a transcript belong to which call of a subagent. */

import { textsOf } from './live.ts';
import { Block } from './native.ts';
import { fieldOf } from './summary.ts';
import type { Line } from './transcript-lines.ts';

export interface Subagents {
  /** Its lines, once: a transcript that names itself tells nothing for ever. */
  take(call: string): readonly Line[];
}

export function subagentsIn(lines: readonly Line[]): Subagents {
  const byAgent = Map.groupBy(
    lines.filter(({ agentId }) => agentId !== undefined),
    ({ agentId }) => agentId ?? '',
  );
  const byCall = new Map(lines.flatMap(answeredCalls));
  const byPrompt = new Map([...byAgent].map(([agent, own]) => [promptOf(own), agent]));
  const prompts = new Map(lines.flatMap(callsWithPrompts));
  return {
    take(call) {
      // A subagent that was stopped has no answer that names it: its prompt does.
      const agent = byCall.get(call) ?? byPrompt.get(prompts.get(call));
      const own = agent === undefined ? undefined : byAgent.get(agent);
      if (agent !== undefined) byAgent.delete(agent);
      return own ?? [];
    },
  };
}

function answeredCalls(line: Line): [call: string, agent: string][] {
  if (line.type !== 'user' || typeof line.message.content === 'string') return [];
  const agent = fieldOf(line.toolUseResult, 'agentId');
  if (agent === undefined) return [];
  return line.message.content.flatMap((given) => {
    const block = Block.safeParse(given).data;
    return block?.type === 'tool_result' ? [[block.tool_use_id, agent] as [string, string]] : [];
  });
}

function callsWithPrompts(line: Line): [call: string, prompt: string][] {
  if (line.type !== 'assistant') return [];
  return line.message.content.flatMap((given) => {
    const block = Block.safeParse(given).data;
    const prompt = block?.type === 'tool_use' ? fieldOf(block.input, 'prompt') : undefined;
    return block?.type === 'tool_use' && prompt !== undefined ? [[block.id, prompt] as [string, string]] : [];
  });
}

function promptOf(own: readonly Line[]): string | undefined {
  const [first] = own;
  if (first?.type !== 'user') return undefined;
  const { content } = first.message;
  return typeof content === 'string' ? content : textsOf(content);
}
