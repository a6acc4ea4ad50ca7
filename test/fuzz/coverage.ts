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

const nameOf = ({ functionName }: { readonly functionName: string }): string => functionName.replace(/^[gs]et /, '');
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
    const within = functions && all.filter((one) => functions.includes(nameOf(one)));
    const gone = functions?.find((name) => !all.some((one) => nameOf(one) === name));
    if (gone !== undefined) throw new Error(`${file} has no function ${gone}, or nothing calls the one around it`);
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

/** Where a function or class is in its file. */
type Place = readonly [from: number, to: number];

/** Functions of the files that no target counts and `others` does not name, and what it names that is not there. */
export async function unlisted(
  inspector: Session,
  parsers: readonly ParserFile[],
  others: Readonly<Record<string, readonly string[]>>,
): Promise<string[]> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  const byFile = Object.groupBy(parsers, ({ file }) => file);
  const needless = Object.keys(others).filter((file) => !byFile[file]);
  const found = Object.entries(byFile).flatMap(([file, lists = []]) => {
    if (lists.some(({ functions, class: name }) => functions === undefined && name === undefined)) return [];
    const url = new URL(file, src).href;
    const text = stripTypeScriptTypes(readFileSync(fileURLToPath(url), 'utf8'));
    // The first one is the module itself.
    const all = (result.findLast((script) => script.url === url)?.functions ?? []).slice(1).map((one) => {
      const { startOffset = 0, endOffset = 0 } = one.ranges[0] ?? {};
      return { name: nameOf(one), place: [startOffset, endOffset] as Place };
    });
    const placesOf = (name: string) => all.filter((one) => one.name === name).map(({ place }) => place);
    const classOf = (name: string): Place[] => {
      const begin = text.search(new RegExp(`^(?:export )?(?:abstract )?class ${name}\\b`, 'm'));
      return begin < 0 ? [] : [[begin, text.indexOf('\n}', begin)]];
    };
    const named = others[file] ?? [];
    const known = [
      ...lists.flatMap(({ functions = [], class: name }) => [
        ...functions.flatMap(placesOf),
        ...(name === undefined ? [] : classOf(name)),
      ]),
      ...named.flatMap((name) => [...classOf(name), ...placesOf(name)]),
    ];
    const isWithin = ([from, to]: Place, others: readonly Place[]) => others.some(([a, b]) => a <= from && to <= b);
    const missing = all.filter(
      // Constructors have the names of their classes.
      ({ name, place }) => /^#?\w+$/.test(name) && classOf(name).length === 0 && !isWithin(place, known),
    );
    const outermost = missing.filter(
      ({ place }) =>
        !isWithin(
          place,
          missing.map((one) => one.place).filter((other) => other !== place),
        ),
    );
    return [
      ...outermost.map(({ name }) => `${file}: ${name} is in no list`),
      ...named
        .filter((name) => placesOf(name).length + classOf(name).length === 0)
        // Functions within others are there once those were called.
        .concat(lists.flatMap(({ functions = [] }) => functions.filter((name) => !text.includes(name))))
        .map((name) => `${file}: there is no ${name}`),
    ];
  });
  return [...found, ...needless.map((file) => `${file}: no target has a list of it`)];
}
