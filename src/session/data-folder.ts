/** The data folder: where agents' files, checkpoints and records lie. */

import { mkdirSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { readEnvironment } from '../environment.ts';
import { CellaError } from '../protocol/errors.ts';
import { folderProblem } from '../sandbox/spec.ts';

const realPaths = new Map<string, string>();

/** Made where it is missing, for this user alone, and freed of symbolic links. */
export function dataFolder(wanted: string | undefined): string {
  const named = wanted ?? readEnvironment().dataDir;
  const known = realPaths.get(named);
  if (known !== undefined) return known;
  const path = resolve(named);
  try {
    // Making folders in /proc and its like never ends.
    const place = path.split('/')[1] ?? '';
    if (['proc', 'sys', 'dev'].includes(place)) throw new Error(`/${place} holds no files of its own`);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const real = realpathSync.native(path);
    realPaths.set(named, real);
    return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `dataDir: ${folderProblem(path, cause)}.`, { cause });
  }
}
