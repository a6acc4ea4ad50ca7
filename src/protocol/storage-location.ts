/** Where data is kept: in files of the data folder, or in Redis. Workspaces and packages are always in the data folder. */

export interface StorageLocation {
  readonly dataDir: string;
  /** Used instead of files in the data folder. */
  readonly redis?: { readonly url: string; readonly prefix?: string } | undefined;
}

export function isSameStorage(one: StorageLocation, other: StorageLocation): boolean {
  if (!one.redis || !other.redis) return !one.redis && !other.redis && one.dataDir === other.dataDir;
  return redisKey(one.redis) === redisKey(other.redis);
}

function redisKey({ url, prefix = 'cella' }: NonNullable<StorageLocation['redis']>): string {
  const { host, pathname } = new URL(url);
  return JSON.stringify([host, pathname.replace(/^\/?$/, '/0'), prefix]);
}
