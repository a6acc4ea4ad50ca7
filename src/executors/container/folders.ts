/** Whether the user of a container can use the folders of a policy: an engine brings them in as they are on disk. */

import { statSync } from 'node:fs';
import { CellaError } from '../../protocol/errors.ts';
import type { Folder, LaunchSpec } from '../../sandbox/spec.ts';

const READ = 5;
const WRITE = 7;

export function checkFolders(spec: LaunchSpec): void {
  for (const folder of spec.writable) check(folder, spec, WRITE, 'write to');
  for (const folder of spec.readable) check(folder, spec, READ, 'read');
}

function check({ path, owner }: Folder, { uid, gid }: LaunchSpec, wanted: number, verb: string): void {
  // Without an owner it is the container's own, or was looked at by whoever named it.
  if (!owner) return;
  const { mode } = statSync(path);
  const shift = owner[0] === uid ? 6 : owner[1] === gid ? 3 : 0;
  if (((mode >> shift) & wanted) === wanted) return;
  const whose = `it belongs to ${owner[0]}:${owner[1]}, and the container runs as ${uid}:${gid}`;
  const advice = `Let others ${verb} it (\`chmod o+${wanted === WRITE ? 'rwx' : 'rx'}\`), or leave it out`;
  throw new CellaError('WORKSPACE_NOT_WRITABLE', `The container cannot ${verb} ${path}: ${whose}. ${advice}.`);
}
