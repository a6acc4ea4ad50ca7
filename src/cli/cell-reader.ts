/** Puts lines together until they are a whole cell, and completes names in them. */

import type { SessionApi } from '../session/api.ts';
import type { LineSource } from './lines.ts';

type Asked = Pick<SessionApi, 'isComplete' | 'complete'>;

/** Undefined where there are no more lines. */
export async function readCell(
  session: Asked,
  lines: LineSource,
  { prompts }: { prompts: boolean },
): Promise<string | undefined> {
  let code = '';
  for (;;) {
    const before = code;
    const prompt = !prompts ? '' : code === '' ? '>>> ' : '... ';
    const line = await lines.read({ prompt, complete: (text) => completeLine(session, before, text) });
    if (line.kind === 'interrupt') {
      code = '';
    } else if (line.kind === 'line') {
      if (code === '' && line.text.trim() === '') continue;
      code = code === '' ? line.text : `${code}\n${line.text}`;
      // The next line is the person's own to indent, as in Python itself.
      if (!(await needsMore(session, code))) return code;
    } else {
      return code === '' ? undefined : code;
    }
  }
}

/** Invalid code counts as whole: running it tells what is wrong. */
async function needsMore(session: Asked, code: string): Promise<boolean> {
  try {
    // A line of spaces, as an indented prompt leaves it, ends a block like an empty one.
    const state = await session.isComplete(code.replace(/\n[ \t]+$/, '\n'));
    return state.status === 'incomplete';
  } catch {
    // A kernel that cannot answer says why when it is to run the code.
    return false;
  }
}

/** What may take the place of the line's end. Nothing but spaces is indented by four more. */
export async function completeLine(
  session: Asked,
  before: string,
  line: string,
): Promise<readonly [readonly string[], string]> {
  if (line.trim() === '') return [[`${line}    `], line];
  const code = before === '' ? line : `${before}\n${line}`;
  const { matches, start } = await session.complete(code, code.length);
  const replaced = code.slice(start);
  return replaced.length > line.length ? [[], line] : [matches.map((match) => match.text), replaced];
}
