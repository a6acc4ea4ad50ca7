/** Places that an image wants a volume at, which an engine would make writable, and as large as the disk. */

import { posix } from 'node:path';
import type { MountSettings } from 'dockerode';

/** Empty places that nobody can write to instead. `taken` are those where something else is mounted. */
export function closedVolumes(volumes: readonly string[], taken: readonly string[] = []): MountSettings[] {
  const places = new Set(volumes.map((path) => posix.resolve('/', path)));
  for (const path of taken) places.delete(path);
  return [...places].map((Target) => ({ Type: 'tmpfs', Source: '', Target, ReadOnly: true }));
}
