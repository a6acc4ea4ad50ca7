/** The code of `cella run`: given as an option, read from a file, or read from stdin. */

import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { UsageError } from './exit.ts';

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
  switch (source.kind) {
    case 'code':
      return source.code;
    case 'file':
      return decode(await readProgram(source.path), source.path);
    case 'stdin': {
      const chunks: Buffer[] = [];
      for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
      return decode(Buffer.concat(chunks), 'the program on stdin');
    }
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EISDIR: 'is a folder',
  EACCES: 'may not be read by this user',
};

async function readProgram(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw new UsageError(
      `${path} ${reasons[code] ?? `cannot be read (${code})`}.`,
      'Name a Python file, or give code with -c.',
    );
  }
}

/** A byte order mark is no part of the program. */
function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${name} is not UTF-8 text.`, 'Save it as UTF-8 and run it again.');
  }
}
