/** What a tool is about, on one line: its name and what it is given that says most. */

import { cut } from '../table.ts';
import { toPlain } from '../texts.ts';

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
  const [first = ''] = (title ?? tellingOf(input)).trim().split('\n');
  return cut(toPlain(`${tool} ${first}`.trim()), LONGEST);
}

function tellingOf(input: unknown): string {
  if (typeof input !== 'object' || input === null) return '';
  const fields = new Map(Object.entries(input));
  const told = telling.map((name) => fields.get(name)).find((value) => typeof value === 'string');
  return typeof told === 'string' ? told : '';
}
