/** Whether the user of a container can use the folders of a policy: an engine brings them in as they are on disk. */

import { existsSync, realpathSync, statSync } from 'node:fs';
import { CellaError } from '../../protocol/errors.ts';
import type { EnvironmentSpec, Mount } from '../../sandbox/spec.ts';

const READ = 5;
const WRITE = 7;

export function checkFolders(spec: EnvironmentSpec): void {
  for (const folder of [...spec.writable, ...spec.readable]) checkWay(folder);
  for (const folder of spec.writable) check(folder, spec, WRITE, 'write to');
  for (const folder of spec.readable) check(folder, spec, READ, 'read');
}

/** The host has resolved the path: if a link stands in it by now, somebody has put it there, and an engine would follow. */
function checkWay({ path, at }: Mount): void {
  // What has another name inside is Cella's own, where no code gets at what is above it.
  if (at !== undefined || (existsSync(path) && realpathSync.native(path) === path)) return;
  const message = `The container cannot have ${path}: it is gone, or a link stands in its way by now.`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', message, { advice: 'Look who may write to the folders above it.' });
}

/** What lies in another that may be written is seen there; brought in by its name, it would be whatever code puts there. */
export function outermost(folders: readonly Mount[]): Mount[] {
  const isWithin = (one: Mount, other: Mount) =>
    one.at === undefined && other.at === undefined && one.path.startsWith(`${other.path}/`);
  return folders.filter((one) => !folders.some((other) => isWithin(one, other)));
}

function check({ path, owner }: Mount, { uid, gid }: EnvironmentSpec, wanted: number, verb: string): void {
  // Without an owner it is the container's own, or was looked at by whoever named it.
  if (!owner) return;
  const { mode } = statSync(path);
  const shift = owner[0] === uid ? 6 : owner[1] === gid ? 3 : 0;
  if (((mode >> shift) & wanted) === wanted) return;
  const whose = `it belongs to ${owner[0]}:${owner[1]}, and the container runs as ${uid}:${gid}`;
  const advice = `Let others ${verb} it (\`chmod o+${wanted === WRITE ? 'rwx' : 'rx'}\`), or leave it out`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', `The container cannot ${verb} ${path}: ${whose}. ${advice}.`);
}
