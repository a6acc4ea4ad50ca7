/** The names of an agent's own tools, as they were typed. */

import { ToolNames } from '../../protocol/turn.ts';
import { UsageError } from '../command-errors.ts';

export function toolsNamed(text: string): readonly string[] {
  const names = ToolNames.safeParse(text.split(',').map((name) => name.trim()));
  if (names.success) return names.data;
  const message = `${JSON.stringify(text)} is no list of tools: at most 100 names, with commas between them.`;
  throw new UsageError(message, 'Name tools of the agent, such as --tools Read,Bash.');
}
