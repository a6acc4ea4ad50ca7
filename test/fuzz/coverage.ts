/** Which lines of a parser ran, of those that can. */

import { readFileSync } from 'node:fs';
import type { Session } from 'node:inspector/promises';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';

/** A file below `src`, or a class or functions of it. */
export interface ParserFile {
  readonly file: string;
  readonly class?: string;
  readonly functions?: readonly string[];
}

export interface FileCoverage {
  readonly file: string;
  readonly percent: number;
  readonly missed: readonly number[];
}

const src = new URL('../../src/', import.meta.url);

/** Ends the counting. */
export async function covered(
  inspector: Session,
  { parser }: { readonly parser: readonly ParserFile[] },
): Promise<FileCoverage[]> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  await inspector.post('Profiler.stopPreciseCoverage');
  inspector.disconnect();
  return parser.map(({ file, class: name, functions }) => {
    const url = new URL(file, src).href;
    // Node takes types out and leaves blanks: every place stays what it was.
    const text = stripTypeScriptTypes(readFileSync(fileURLToPath(url), 'utf8'));
    const all = result.findLast((script) => script.url === url)?.functions ?? [];
    const within = functions && all.filter(({ functionName }) => functions.includes(functionName));
    const ranges = all.flatMap((one) => one.ranges);
    const first = name === undefined ? 0 : text.indexOf(`class ${name} `);
    const last = name === undefined ? text.length : text.indexOf('\n}', first);
    const missed: number[] = [];
    let [at, lines] = [0, 0];
    let comment = false;
    for (const [index, line] of text.split('\n').entries()) {
      const code = line.trim();
      const [from, to] = [at + line.length - line.trimStart().length, at + line.trimEnd().length];
      at += line.length + 1;
      const isComment = comment || code.startsWith('//') || code.startsWith('/*');
      comment = (comment || code.startsWith('/*')) && !code.includes('*/');
      // Brackets alone are nothing that could run.
      if (isComment || !/\w/.test(code) || from < first || to > last) continue;
      if (within && !within.some(({ ranges: [own] }) => own && own.startOffset <= from && to <= own.endOffset))
        continue;
      lines += 1;
      const inner = ranges
        .filter(({ startOffset, endOffset }) => startOffset <= from && to <= endOffset)
        .toSorted((one, other) => one.endOffset - one.startOffset - (other.endOffset - other.startOffset))[0];
      if (inner?.count === 0) missed.push(index + 1);
    }
    return { file, percent: lines === 0 ? 0 : Math.round((1000 * (lines - missed.length)) / lines) / 10, missed };
  });
}
