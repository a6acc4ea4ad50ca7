/** Installs packages without an installer on the host: chooses wheels, downloads and unpacks them. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from '../../../lib/values.ts';
import type { Interpreter } from '../../../protocol/environment-spec.ts';
import { parseRequirement, type Requirement } from '../../../protocol/requirement.ts';
import { indexesOf, type PackageSource, withoutSecrets } from '../package-source.ts';
import type { InstallFailure } from '../run-installer.ts';
import { installAborted, type PackageProgress } from '../shared-installs.ts';
import { IndexClient } from './index-client.ts';
import { PackageIndex } from './package-index.ts';
import { isPure } from './python-target.ts';
import { CandidateSelector, explainUnmet, resolve } from './resolve.ts';
import { DEFAULT_LIMITS, ResolutionError, type ResolverLimits } from './resolver-limits.ts';
import { unpackWheel, WheelCache, withFileContext, writePrograms } from './wheel.ts';

export interface BuiltInInstall {
  readonly requirements: readonly string[];
  readonly interpreter: Interpreter;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** A folder that other users cannot enter. Packages are installed into `<folder>/target`. */
  readonly folder: string;
  readonly limits?: Partial<ResolverLimits>;
}

/** Returns why the packages could not be installed, or undefined. */
export async function installBuiltIn(
  install: BuiltInInstall,
  { signal, progress }: PackageProgress,
): Promise<InstallFailure | undefined> {
  const clock = AbortSignal.timeout(install.timeoutMs);
  try {
    await unpackAll(install, { signal: AbortSignal.any([signal, clock]), progress });
    return undefined;
  } catch (error) {
    if (signal.aborted) throw installAborted();
    if (clock.aborted) return { reason: 'the packages were not installed in time', scope: 'all' };
    if (!(error instanceof ResolutionError)) return unpackFailure(error);
    return { reason: withoutSecrets(error.reason, install.source).slice(0, 1500), scope: error.scope };
  }
}

/** For an error of the disk, or of packages with conflicting paths. */
function unpackFailure(error: unknown): InstallFailure {
  const code = systemCode(error);
  if (!(error instanceof Error) || code === undefined) throw error;
  const inTheWay = ['EEXIST', 'ENOTDIR', 'EISDIR'].includes(code);
  return { reason: `the packages cannot be unpacked: ${error.message}`, scope: inTheWay ? 'some' : 'all' };
}

async function unpackAll(install: BuiltInInstall, { signal, progress }: PackageProgress): Promise<void> {
  const { interpreter, source, folder } = install;
  const limits = { ...DEFAULT_LIMITS, ...install.limits };
  const fetched = join(folder, 'fetched');
  const target = join(folder, 'target');
  for (const path of [folder, fetched, target]) await mkdir(path, { mode: 0o700 });
  const fetcher = new IndexClient(indexesOf(source), limits, signal);
  const files = new PackageIndex(source, fetcher, limits);
  const store = new WheelCache(fetcher, limits, fetched, progress);
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
    room -= await withFileContext(file, () => unpackWheel(path, unpacking));
  }
  await writePrograms(target);
  progress(`Installed ${chosen.map(({ name, versionText }) => `${name} ${versionText}`).join(', ')}`);
}

const NOT_FOUND = /^ERROR: Could not find a version that satisfies the requirement ([^ ]+)(?: \(from ([^)]*)\))?/;
const LONGEST_MS = 30_000;

/** Why pip found no version, in more detail than pip's own message. Undefined if that message is better. */
export async function explainNotFound(
  lines: readonly string[],
  interpreter: Interpreter,
  source: PackageSource,
  signal: AbortSignal,
): Promise<InstallFailure | undefined> {
  const [, text = '', by] = lines.map((line) => NOT_FOUND.exec(line)).find((found) => found !== null) ?? [];
  const asked = tryParseRequirement(text);
  if (!asked) return undefined;
  const stop = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
  const places = new PackageIndex(source, new IndexClient(indexesOf(source), DEFAULT_LIMITS, stop), DEFAULT_LIMITS);
  try {
    const { name, versions: conditions } = asked;
    const files = await places.of(name);
    const chooser = new CandidateSelector(interpreter);
    // Some wheel is compatible, so pip's own message is better.
    if ((await chooser.candidates(files, conditions)).length > 0) return undefined;
    const reason = await explainUnmet({ name, conditions, files, where: places.where }, interpreter, chooser);
    const whole =
      by === undefined || by.startsWith('versions:') || by.startsWith('-r ')
        ? reason
        : `${by} needs ${text}: ${reason}`;
    return { reason: withoutSecrets(whole, source), scope: 'some' };
  } catch {
    return undefined; // pip's own message is reported instead
  }
}

function tryParseRequirement(text: string): Requirement | undefined {
  try {
    return parseRequirement(text);
  } catch {
    return undefined; // a text of pip that is not a requirement
  }
}
