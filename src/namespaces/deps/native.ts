/** Native code among packages that must have none, whatever the names of their wheels said. */

import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { packageName } from '../../protocol/requirement.ts';
import { readSmall } from './resolver/read-small.ts';
import { pureOnly } from './resolver/target.ts';
import { NATIVE } from './resolver/wheel.ts';

/** Of the list of a package's files. */
const LARGEST_RECORD = 16 * 1024 * 1024;

/** Why they cannot be used; undefined where they can. */
export async function nativeIn(folder: string): Promise<string | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const found = entries.find((entry) => !entry.isDirectory() && NATIVE.test(entry.name));
  if (!found) return undefined;
  const path = relative(folder, join(found.parentPath, found.name));
  return `${await ownerOf(folder, path)} has native code (${path}), ${pureOnly}`;
}

/** As the packages themselves list their files. */
async function ownerOf(folder: string, path: string): Promise<string> {
  for (const name of await readdir(folder)) {
    const [, written, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(name) ?? [];
    if (written === undefined) continue;
    const record = await readSmall(join(folder, name, 'RECORD'), LARGEST_RECORD);
    if (record.split('\n').some((line) => line.startsWith(`${path},`))) return `${packageName(written)} ${version}`;
  }
  return 'a package';
}
