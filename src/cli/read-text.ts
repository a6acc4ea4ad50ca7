/** A text that a command line names: a file, or `-` for stdin. */

import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { UsageError } from './exit.ts';

export interface TextRequest {
  readonly stdin: Readable;
  /** What to do where the file cannot be read. */
  readonly advice: string;
}

export async function readText(file: string, { stdin, advice }: TextRequest): Promise<string> {
  if (file !== '-') return decode(await readBytes(file, advice), file);
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
  return decode(Buffer.concat(chunks), 'the text on stdin');
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EISDIR: 'is a folder',
  EACCES: 'may not be read by this user',
};

async function readBytes(path: string, advice: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw unreadable(path, error, advice);
  }
}

export function unreadable(path: string, error: unknown, advice: string): UsageError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return new UsageError(`${path} ${reasons[code] ?? `cannot be read (${code})`}.`, advice);
}

/** A byte order mark is no part of the text. */
function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${name} is not UTF-8 text.`, 'Save it as UTF-8 and run it again.');
  }
}
