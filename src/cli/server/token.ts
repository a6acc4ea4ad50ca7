/** The token that a file holds. */

import { readFile } from 'node:fs/promises';
import { UsageError } from '../exit.ts';

export async function tokenIn(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new UsageError(`The token cannot be read: ${error.message}.`, 'Give --token-file a file that holds one.');
  });
  const token = text.trim();
  if (/^\S+$/.test(token)) return token;
  throw new UsageError(`There is no token in ${file}.`, '`cella tokens create` prints one, alone on stdout.');
}
