/** The agent key of a folder: readable, and of no other folder, so that two projects do not meet. */

import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { basename } from 'node:path';

const MOST_CHARACTERS = 40;

/** The same by whatever links the folder is reached. */
export function agentKeyOfFolder(folder: string): string {
  const path = realpathSync(folder);
  const readable = basename(path)
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .slice(0, MOST_CHARACTERS)
    .toWellFormed();
  const hash = createHash('sha256').update(path).digest('hex').slice(0, 8);
  return `${readable || 'folder'}-${hash}`;
}
