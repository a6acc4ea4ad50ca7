/** Places that an engine would make writable: where an image wants a volume, as large as the disk, and others. */

import { posix } from 'node:path';
import type { MountSettings } from 'dockerode';
import type { EngineName } from './greeting.ts';

/** Where Podman puts scratch space without a limit by itself, if the root is read-only. */
const SCRATCH_OF_PODMAN = ['/run', '/tmp', '/var/tmp'];

/** Empty places that nobody can write to instead. `taken` are those where something else is mounted. */
export function closedVolumes(
  { name }: Pick<EngineName, 'name'>,
  volumes: readonly string[],
  taken: readonly string[],
): MountSettings[] {
  const places = new Set(volumes.map((path) => posix.resolve('/', path)));
  for (const path of name === 'podman' ? SCRATCH_OF_PODMAN : []) places.add(path);
  for (const path of taken) places.delete(path);
  return [...places].map((Target) => ({ Type: 'tmpfs', Source: '', Target, ReadOnly: true }));
}
