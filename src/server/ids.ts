/** Ids that the server creates, and agent keys as storage has them. */

import { randomBytes } from 'node:crypto';

const DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz';

/** Session, execution, permission, rule, turn, output file. */
type IdKind = 'ses' | 'exe' | 'prm' | 'rul' | 'trn' | 'out';

/** Ids of one kind sort by the time at which they were made. */
export function newSortableId(kind: IdKind): string {
  return `${kind}_${stamp()}${random(8)}`;
}

/** Whether this is the user `local`, who also owns what was created without a server. */
export const isLocalUser = (ownerId: string): boolean => ownerId === 'local';

export function storageKeyOf(ownerId: string, agentKey: string): string {
  return isLocalUser(ownerId) ? agentKey : `~${ownerId}/${agentKey}`;
}

const OWNED = /^~([^/]+~[a-z0-9]{12})\//;

/** The user who owns the key. */
export function ownerIn(storageKey: string): string {
  return OWNED.exec(storageKey)?.[1] ?? 'local';
}

/** Undefined for a key of another user. */
export function agentKeyIn(ownerId: string, storageKey: string): string | undefined {
  if (isLocalUser(ownerId)) return OWNED.test(storageKey) ? undefined : storageKey;
  const mine = storageKeyOf(ownerId, '');
  return storageKey.startsWith(mine) ? storageKey.slice(mine.length) : undefined;
}

/** Milliseconds since 1970, in 8 digits. */
function stamp(): string {
  return Date.now().toString(36).padStart(8, '0');
}

/** Random bytes for the next ids: one call for many bytes is cheaper than many calls. */
let bytes = Buffer.alloc(0);
let used = 0;

function random(length: number): string {
  if (used + length > bytes.length) {
    bytes = randomBytes(1024);
    used = 0;
  }
  let text = '';
  for (const byte of bytes.subarray(used, used + length)) text += DIGITS[byte % DIGITS.length];
  used += length;
  return text;
}
