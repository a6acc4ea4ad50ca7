/** The code of `cella run`: given as an option, read from a file, or read from stdin. */

import type { Readable } from 'node:stream';
import { UsageError } from './command-errors.ts';
import { readText } from './terminal/line-input.ts';

export type Source =
  | { readonly kind: 'code'; readonly code: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' };

const howTo = "Give code with -c, a file's name, or - to read the program from stdin; see `cella run --help`.";

export function chooseSource(file: string | undefined, code: string | undefined): Source {
  if (file !== undefined && code !== undefined) {
    throw new UsageError(
      `Both -c and the file ${JSON.stringify(file)} are given, and only one program can run.`,
      howTo,
    );
  }
  if (code !== undefined) return { kind: 'code', code };
  if (file === undefined || file === '') throw new UsageError('There is no program to run.', howTo);
  return file === '-' ? { kind: 'stdin' } : { kind: 'file', path: file };
}

export async function readSource(source: Source, stdin: Readable): Promise<string> {
  if (source.kind === 'code') return source.code;
  const file = source.kind === 'file' ? source.path : '-';
  return await readText(file, { stdin, advice: 'Name a Python file, or give code with -c.' });
}
