/** Builds one package set: installs, checks the result, writes the manifest, and makes the set read-only. */

import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { z } from 'zod';
import { parseJsonOrUndefined } from '../../interpreter/find-python.ts';
import { messageOf } from '../../lib/values.ts';
import { packageName, parseRequirement } from '../../protocol/requirement.ts';
import { copyReadOnly, type InstallWorkspace, openInstallWorkspace } from './install-workspace.ts';
import { requirementsText } from './installers.ts';
import type { PackageSource } from './package-source.ts';
import { pureOnly } from './resolver/python-target.ts';
import { NATIVE, readSmall } from './resolver/wheel.ts';
import type { Installer, InstallFailure } from './run-installer.ts';
import { installAborted, type PackageProgress } from './shared-installs.ts';

export interface BuildPlan {
  readonly requirements: readonly string[];
  readonly tag: string;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** Where sets are built. */
  readonly folder: string;
  /** Whether the Python runs only pure Python packages. */
  readonly pure: boolean;
  installer(workspace: InstallWorkspace, signal: AbortSignal): Promise<Installer>;
}

export interface StagedSet extends AsyncDisposable {
  readonly kind: 'ready';
  /** The folder. Disposing removes it, unless it was renamed. */
  readonly path: string;
}

export type BuildResult = StagedSet | ({ readonly kind: 'failed' } & InstallFailure);

export async function buildSet(plan: BuildPlan, { signal, progress }: PackageProgress): Promise<BuildResult> {
  if (signal.aborted) throw installAborted();
  await using stack = new AsyncDisposableStack();
  const { requirements, source } = plan;
  const workspace = stack.use(await openInstallWorkspace(plan.folder, requirementsText(requirements, source)));
  const installer = await plan.installer(workspace, signal);
  progress(`Installing ${requirements.join(' ')} with ${installer.name}`);
  const filled = await installer.install(
    { requirements, source, timeoutMs: plan.timeoutMs, workspace },
    { signal, progress },
  );
  if (signal.aborted) throw installAborted();
  if (filled.kind === 'failed') return filled;
  const native = plan.pure ? await nativeIn(filled.folder) : undefined;
  if (native !== undefined) return { kind: 'failed', reason: native, scope: 'some' };
  const distributions = await distributionsIn(filled.folder);
  const missing = missingFrom(distributions, requirements);
  if (missing.length > 0) {
    const reason = `${installer.name} reported success, but did not install ${missing.join(', ')}`;
    return { kind: 'failed', reason, scope: 'some' };
  }
  const { tag } = plan;
  const facts = {
    format: 1,
    tag,
    requirements,
    distributions,
    installer: installer.name,
    builtAt: Date.now(),
  } as const;
  try {
    await freeze(filled.folder, workspace.copy, { ...facts, requirements: [...requirements] });
  } catch (error) {
    const why = messageOf(error);
    return { kind: 'failed', reason: `what was installed cannot be kept: ${why}`, scope: 'some' };
  }
  if (signal.aborted) throw installAborted();
  const kept = stack.move();
  return { kind: 'ready', path: workspace.copy, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function freeze(folder: string, copy: string, manifest: SetManifest): Promise<void> {
  await copyReadOnly(folder, copy);
  // An ordinary user can move a folder only while it is writable.
  await chmod(copy, 0o755);
  const path = join(copy, MANIFEST);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  await chmod(path, 0o444);
}

const MANIFEST = 'cella-set.json';

export const SetManifest = z.object({
  format: z.literal(1),
  tag: z.string(),
  requirements: z.array(z.string()),
  /** All packages in the set by name: the requested ones and their dependencies. */
  distributions: z.array(z.object({ name: z.string(), version: z.string() })),
  installer: z.string(),
  /** Milliseconds since 1970. */
  builtAt: z.number(),
});
export type SetManifest = z.infer<typeof SetManifest>;

/** The manifest, or undefined if there is no complete set in this format. */
export async function readSetManifest(set: string): Promise<SetManifest | undefined> {
  const text = await readFile(join(set, MANIFEST), 'utf8').catch(() => '');
  return SetManifest.safeParse(parseJsonOrUndefined(text)).data;
}

async function distributionsIn(folder: string): Promise<SetManifest['distributions']> {
  const found = (await readdir(folder)).flatMap((entry) => {
    const [, name, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(entry) ?? [];
    return name === undefined || version === undefined ? [] : [{ name: packageName(name), version }];
  });
  return found.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The requirements whose package is missing, even if the installer reported success. */
function missingFrom(distributions: SetManifest['distributions'], requirements: readonly string[]): string[] {
  const names = new Set(distributions.map(({ name }) => name));
  return requirements.filter((requirement) => !names.has(parseRequirement(requirement).name));
}

/** The most bytes of the list of a package's files. */
const LARGEST_RECORD = 16 * 1024 * 1024;

/** Why the packages cannot be used, or undefined. */
async function nativeIn(folder: string): Promise<string | undefined> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const found = entries.find((entry) => !entry.isDirectory() && NATIVE.test(entry.name));
  if (!found) return undefined;
  const path = relative(folder, join(found.parentPath, found.name));
  return `${await ownerOf(folder, path)} has native code (${path}), ${pureOnly}`;
}

/** The package whose list of files has this path. */
async function ownerOf(folder: string, path: string): Promise<string> {
  for (const name of await readdir(folder)) {
    const [, written, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(name) ?? [];
    if (written === undefined) continue;
    const record = await readSmall(join(folder, name, 'RECORD'), LARGEST_RECORD);
    if (record.split('\n').some((line) => line.startsWith(`${path},`))) return `${packageName(written)} ${version}`;
  }
  return 'a package';
}
