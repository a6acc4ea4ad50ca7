/** What a tool is about, on one line: its name and what it is given that says most. */

import { cut } from '../table.ts';
import { toPlain } from '../texts.ts';

/** The session's own MCP server runs code with it. */
export const RUN_CODE = 'mcp__cella__run_code';

const LONGEST = 100;
/** The first of these that is there. */
const telling = [
  'command',
  'file_path',
  'notebook_path',
  'path',
  'url',
  'query',
  'pattern',
  'description',
  'code',
  'prompt',
];

export interface Used {
  readonly tool: string;
  readonly title?: string | undefined;
  readonly input?: unknown;
}

export function headline({ tool, title, input }: Used): string {
  // What it is given says what happens; a title may be the agent's own words for it.
  const [first = ''] = (tellingOf(input) || (title ?? '')).trim().split('\n');
  const about = first === tool || first.startsWith(`${tool} `) ? first.slice(tool.length) : first;
  return cut(toPlain(`${toolInWords(tool)} ${about.trim()}`.trim()), LONGEST);
}

/** The kernel is Cella's own: by which server the agent reaches it is nothing that a person needs to read. */
export function toolInWords(tool: string): string {
  return tool === RUN_CODE ? 'run_code' : toPlain(tool);
}

function tellingOf(input: unknown): string {
  if (typeof input !== 'object' || input === null) return '';
  const fields = new Map(Object.entries(input));
  const told = telling.map((name) => fields.get(name)).find((value) => typeof value === 'string');
  return typeof told === 'string' ? told : '';
}
