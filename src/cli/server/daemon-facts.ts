/** What a server on a data folder has written down there of itself. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { SERVER_FILE } from '../../protocol/enums.ts';
import { ServerFile } from '../../protocol/server-info.ts';
import type { StoragePlace } from '../context.ts';
import { isSame } from '../store/place.ts';

/**
 * Whether that server keeps things where the command says: `other` where the command names a Redis storage that is not
 * the server's, so that the two have nothing in common; `its own` where the command names none and the server has one.
 */
export async function storageThere({ dataDir, redis }: StoragePlace): Promise<'same' | 'its own' | 'other'> {
  const text = await readFile(join(dataDir, SERVER_FILE), 'utf8').catch(() => ''); // it has just ended
  const theirs = ServerFile.safeParse(tryParseJson(text)).data?.redis;
  if (!redis) return theirs ? 'its own' : 'same';
  return theirs && isSame({ dataDir, redis }, { dataDir, redis: theirs }) ? 'same' : 'other';
}
