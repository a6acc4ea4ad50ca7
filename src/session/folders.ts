/** Where an agent's files lie in the data folder, whatever text its key is. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';

/** Readable where the key is, unique always: two keys never share a folder. */
export function folderName(agentKey: string): string {
  const readable = agentKey
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  const hash = createHash('sha256').update(Buffer.from(agentKey, 'utf16le')).digest('hex').slice(0, 16);
  return readable ? `${readable}-${hash}` : hash;
}

export interface AgentFolders {
  /** Holds the other two, and nothing else. */
  readonly own: string;
  readonly workspace: string;
  readonly home: string;
}

export function agentFolders(dataDir: string, agentKey: string): AgentFolders {
  const own = join(dataDir, 'agents', folderName(agentKey));
  return { own, workspace: join(own, 'workspace'), home: join(own, 'home') };
}
