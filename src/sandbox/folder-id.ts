/** Which folder a path has led to: what has its name later may be another one. */

import { type BigIntStats, readFileSync, statSync } from 'node:fs';
import { z } from 'zod';

export const FolderId = z.object({
  device: z.string(),
  inode: z.string(),
  /** Devices may have other numbers after the machine was started anew. */
  boot: z.string(),
});
export type FolderId = z.infer<typeof FolderId>;

let boot: string | undefined;

function bootId(): string {
  boot ??= readBootId();
  return boot;
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return ''; // no Linux: folders are not held there either
  }
}

export function folderId(path: string): FolderId {
  return idOf(statSync(path, { bigint: true }));
}

export function idOf({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): FolderId {
  return { device: String(dev), inode: String(ino), boot: bootId() };
}

export function isSameFolder(one: FolderId, other: FolderId): boolean {
  return one.inode === other.inode && (one.device === other.device || one.boot !== other.boot);
}
