/** Installs packages without any installer on the host: chooses wheels, fetches them, and unpacks them. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Interpreter } from '../../../protocol/interpreter.ts';
import { parseRequirement } from '../../../protocol/requirement.ts';
import { type Audience, aborted } from '../shared-work.ts';
import { indexesOf, type PackageSource, withoutSecrets } from '../source.ts';
import type { Failure } from '../words.ts';
import { writePrograms } from './entry-points.ts';
import { Failed } from './failed.ts';
import { Fetcher } from './fetcher.ts';
import { LIMITS, type Limits } from './limits.ts';
import { PackageFiles } from './package-files.ts';
import { resolve } from './resolve.ts';
import { saying, WheelStore } from './store.ts';
import { isPure } from './target.ts';
import { unpackWheel } from './wheel.ts';

export interface OwnInstall {
  readonly requirements: readonly string[];
  readonly interpreter: Interpreter;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** Closed to other users; packages come into `<folder>/target`. */
  readonly folder: string;
  readonly limits?: Partial<Limits>;
}

/** Undefined where all is there. */
export async function installByOwn(install: OwnInstall, { signal, progress }: Audience): Promise<Failure | undefined> {
  const clock = AbortSignal.timeout(install.timeoutMs);
  try {
    await unpackAll(install, { signal: AbortSignal.any([signal, clock]), progress });
    return undefined;
  } catch (error) {
    if (signal.aborted) throw aborted();
    if (clock.aborted) return { reason: 'the packages were not there in time', scope: 'all' };
    if (!(error instanceof Failed)) return unpackable(error);
    return { reason: withoutSecrets(error.reason, install.source).slice(0, 1500), scope: error.scope };
  }
}

/** The disk is full, or a file of one package lies where another has a folder. */
function unpackable(error: unknown): Failure {
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) throw error;
  const inTheWay = ['EEXIST', 'ENOTDIR', 'EISDIR'].includes(error.code);
  return { reason: `the packages cannot be unpacked: ${error.message}`, scope: inTheWay ? 'some' : 'all' };
}

async function unpackAll(install: OwnInstall, { signal, progress }: Audience): Promise<void> {
  const { interpreter, source, folder } = install;
  const limits = { ...LIMITS, ...install.limits };
  const fetched = join(folder, 'fetched');
  const target = join(folder, 'target');
  for (const path of [folder, fetched, target]) await mkdir(path, { mode: 0o700 });
  const fetcher = new Fetcher(indexesOf(source), limits, signal);
  const files = new PackageFiles(source, fetcher, limits);
  const store = new WheelStore(fetcher, limits, fetched, progress);
  const chosen = await resolve(install.requirements.map(parseRequirement), interpreter, {
    files,
    store,
    limits,
    signal,
  });
  let room = limits.unpackedBytes;
  for (const file of chosen) {
    const path = await store.path(file);
    const unpacking = { folder: target, pure: isPure(interpreter), limits: { ...limits, unpackedBytes: room }, signal };
    room -= await saying(file, () => unpackWheel(path, unpacking));
  }
  await writePrograms(target);
  progress(`Installed ${chosen.map(({ name, versionText }) => `${name} ${versionText}`).join(', ')}`);
}
