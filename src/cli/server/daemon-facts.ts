/** What a server on a data folder has written down there of itself. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DaemonFacts } from '../../protocol/daemon-facts.ts';
import type { StoragePlace } from '../context.ts';
import { isSame } from '../store/place.ts';

/** Whether the command names a Redis storage that is not the one of that server: then the two have nothing in common. */
export async function hasOtherStorage({ dataDir, redis }: StoragePlace): Promise<boolean> {
  if (!redis) return false;
  const text = await readFile(join(dataDir, 'daemon.json'), 'utf8').catch(() => ''); // it has just ended
  const facts = DaemonFacts.safeParse(jsonOf(text)).data;
  return facts?.redis === undefined || !isSame({ dataDir, redis }, { dataDir, redis: facts.redis });
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // whoever wrote it was no server of ours
  }
}
