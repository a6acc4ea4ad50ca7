/** Another storage, as a person names it: a data folder, or the address of a Redis server with its prefix. */

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { holdsPassword } from '../../settings/setting.ts';
import type { StoragePlace } from '../context.ts';
import { UsageError } from '../exit.ts';
import { placeToText } from '../storage-flags.ts';

/** `redis://host:port/?prefix=team`, or a folder. `dataDir` is for files that Redis storage does without. */
export function parsePlace(text: string, dataDir: string): StoragePlace {
  if (!/^rediss?:/i.test(text)) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
      throw new UsageError('A storage is a data folder, or the address of a Redis server.', SUCH_AS);
    }
    return { dataDir: resolve(text) };
  }
  // Every user of a machine can read arguments. The text is not repeated.
  if (holdsPassword(text)) {
    throw new UsageError('The address holds a password, and every user of this machine can read arguments.', TURNED);
  }
  if (!URL.canParse(text)) throw new UsageError('This is no address of a Redis server.', SUCH_AS);
  const url = new URL(text);
  const prefix = url.searchParams.get('prefix');
  const unknown = [...url.searchParams.keys()].find((name) => name !== 'prefix');
  if (unknown !== undefined) throw new UsageError(`A Redis address knows no ?${unknown}=.`, SUCH_AS);
  url.search = '';
  return { dataDir, redis: { url: url.href, ...(prefix === null ? {} : { prefix }) } };
}

/** As it can be named again, without its password. */
export function toAddress(place: StoragePlace): string {
  const address = placeToText(place);
  const prefix = place.redis?.prefix;
  if (prefix === undefined) return address;
  return `${address.replace(/(:\/\/[^/]*)$/, '$1/')}?prefix=${encodeURIComponent(prefix)}`;
}

const TURNED =
  'Set it in CELLA_REDIS with CELLA_STORAGE=redis, and name the other storage: `cella store pull FOLDER` in place of a push.';
const SUCH_AS = 'Name it as in ./data or redis://127.0.0.1:6379/?prefix=team.';

/** Copying from a folder that is not there would make it. */
export function checkSource({ dataDir, redis }: StoragePlace): void {
  if (redis || existsSync(dataDir)) return;
  throw new UsageError(`There is no folder ${dataDir}.`, 'Name the data folder of another Cella.');
}

export function isSame(one: StoragePlace, other: StoragePlace): boolean {
  if (!one.redis || !other.redis) return !one.redis && !other.redis && one.dataDir === other.dataDir;
  const keyOf = ({ url, prefix = 'cella' }: NonNullable<StoragePlace['redis']>) => {
    const { host, pathname } = new URL(url);
    return JSON.stringify([host, pathname.replace(/^\/?$/, '/0'), prefix]);
  };
  return keyOf(one.redis) === keyOf(other.redis);
}
