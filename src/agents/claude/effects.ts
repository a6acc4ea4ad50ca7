/** What a tool of Claude's has done beside its answer: the plan it keeps, and files of the workspace. */

import { z } from 'zod';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { boundedText } from '../bounded.ts';
import type { ToolUse } from './native.ts';
import { fieldOf, workspacePath } from './summary.ts';

const Todos = z.object({
  todos: z.array(z.object({ content: z.string(), status: z.enum(['pending', 'in_progress', 'completed']) })).max(1000),
});

export function planOf({ name, input }: ToolUse, turn: string): AgentEvent[] {
  const todos = name === 'TodoWrite' ? Todos.safeParse(input).data?.todos : undefined;
  if (!todos) return [];
  const entries = todos.map(({ content, status }) => ({ text: boundedText(content, 2000), status }));
  return [{ type: 'plan', turn, entries }];
}

const WRITERS = new Set(['Write', 'Edit', 'MultiEdit', 'NotebookEdit']);

/** What a command or code has changed is not known from here. */
export function changesOf(
  { name, input }: ToolUse,
  facts: unknown,
  { turn, item, cwd }: { readonly turn: string; readonly item: string; readonly cwd: string },
): AgentEvent[] {
  if (!WRITERS.has(name)) return [];
  const named = fieldOf(input, 'file_path') ?? fieldOf(input, 'notebook_path');
  const path = named === undefined ? undefined : workspacePath(named, cwd);
  if (path === undefined) return [];
  const change = fieldOf(facts, 'type') === 'create' ? 'created' : 'modified';
  return [{ type: 'file_changed', turn, item, path, change }];
}
