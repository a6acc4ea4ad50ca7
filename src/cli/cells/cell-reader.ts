/** Reads lines until they are a complete cell, and completes names in them. */

import type { SessionApi } from '../../session/api.ts';
import type { LineSource } from '../terminal/line-input.ts';

type Asked = Pick<SessionApi, 'isComplete' | 'complete'>;

interface CellReadOptions {
  readonly prompts: boolean;
}

const MORE = '... ';

/** Undefined if there are no more lines. */
export async function readCell(
  session: Asked,
  lines: LineSource,
  { prompts }: CellReadOptions,
): Promise<string | undefined> {
  for (;;) {
    const complete = (text: string) => completionsOf(session, '', text);
    const line = await lines.read({ prompt: prompts ? '>>> ' : '', complete });
    if (line.kind === 'interrupt' || (line.kind === 'line' && line.text.trim() === '')) continue;
    if (line.kind !== 'line') return undefined;
    const code = await finishCell(session, lines, line.text, { prompts });
    if (code !== undefined) return code;
  }
}

/** Completes a cell that begins with these lines. Undefined if interrupted; the end of the input also ends the cell. */
export async function finishCell(
  session: Asked,
  lines: LineSource,
  first: string,
  { prompts }: CellReadOptions,
): Promise<string | undefined> {
  let code = first;
  while (await needsMore(session, code)) {
    const before = code;
    // The person indents the next line, as in Python itself.
    const complete = (text: string) => completionsOf(session, before, text);
    const line = await lines.read({ prompt: prompts ? MORE : '', complete });
    if (line.kind === 'interrupt') return undefined;
    if (line.kind !== 'line') break;
    code = `${code}\n${line.text}`;
  }
  return code;
}

interface BlockOptions extends CellReadOptions {
  /** Whether an empty line ends this block. */
  readonly isWhole: (block: string) => Promise<boolean>;
  readonly complete: (before: string, line: string) => ReturnType<typeof completionsOf>;
}

/** Reads lines up to an empty one. Undefined if interrupted, or if there are none. */
export async function readBlock(
  lines: LineSource,
  { prompts, isWhole, complete }: BlockOptions,
): Promise<string | undefined> {
  let block = '';
  for (;;) {
    const before = block;
    const line = await lines.read({ prompt: prompts ? MORE : '', complete: (text) => complete(before, text) });
    if (line.kind === 'interrupt') return undefined;
    const empty = line.kind === 'line' && line.text.trim() === '';
    if (line.kind !== 'line' || (empty && (block === '' || (await isWhole(`${block}\n`))))) return block || undefined;
    block = block === '' ? line.text : `${block}\n${line.text}`;
  }
}

/** Reads several lines of Python. Empty lines inside brackets or quotes are part of the code. */
export async function readPythonBlock(
  session: Asked,
  lines: LineSource,
  { prompts }: CellReadOptions,
): Promise<string | undefined> {
  const isWhole = async (code: string) => !(await needsMore(session, code));
  const complete = (before: string, line: string) => completionsOf(session, before, line);
  return await readBlock(lines, { prompts, isWhole, complete });
}

/** Invalid code counts as complete: running it shows the error. */
async function needsMore(session: Asked, code: string): Promise<boolean> {
  try {
    // A line of spaces, such as an indented prompt leaves, ends a block like an empty line.
    const state = await session.isComplete(code.replace(/\n[ \t]+$/, '\n'));
    return state.status === 'incomplete';
  } catch {
    // A kernel that cannot answer reports why when it runs the code.
    return false;
  }
}

/** Completions for the end of the line. A line of only spaces gets four more. */
export async function completionsOf(
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
