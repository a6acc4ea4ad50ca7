/** One plain name for any text: how an agent key becomes a folder. */

import { hash } from 'node:crypto';

/** Readable where the key is, unique always: two keys never share a folder. */
export function folderName(agentKey: string): string {
  const readable = agentKey
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  const digest = hash('sha256', Buffer.from(agentKey, 'utf16le')).slice(0, 16);
  return readable ? `${readable}-${digest}` : digest;
}
