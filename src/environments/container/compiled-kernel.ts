/** Copies of the kernel's sources, compiled by the Python of an image, in the cache of the data folder. */

import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { KernelSources } from '../../interpreter/package-file.ts';
import { systemCode } from '../../lib/errno.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ImageProbeAnswer } from './image-python.ts';

const STAGING_PREFIX = '.new-';
/** A staging folder that is older than this was left by a process that has ended. */
const ABANDONED_AFTER_MS = 3_600_000;
/** A copy that was not used for this long is removed; it can be made again. */
const UNUSED_AFTER_MS = 30 * 24 * 3_600_000;

/** A new staging folder below `parent`, with the sources in `kernel`, readable for all users. */
export async function stageSources(parent: string, { files }: KernelSources): Promise<string> {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  await removeAbandoned(parent);
  const staged = join(parent, `${STAGING_PREFIX}${randomUUID()}`);
  for (const [name, text] of files) await put(join(staged, 'kernel', name), text);
  await openFolders(staged);
  return staged;
}

/** Only what belongs to a source of ours, and only where its compiled code is looked for. */
export async function addCompiled(
  staged: string,
  { files }: KernelSources,
  { compiled }: ImageProbeAnswer,
): Promise<void> {
  for (const [name, { at, code }] of Object.entries(compiled)) {
    const module = /^(?:.*\/)?([A-Za-z0-9_]+)\.py$/.exec(name)?.[1];
    const expected = new RegExp(`^__pycache__/${module}\\.[A-Za-z0-9_-]+\\.pyc$`);
    const within = dirname(name) === '.' ? at : at.slice(dirname(name).length + 1);
    if (!files.has(name) || module === undefined || join(dirname(name), within) !== at || !expected.test(within)) {
      throw new CellaError('IMAGE_UNUSABLE', `Its Python compiled ${name} to ${at}, which cannot be.`);
    }
    await put(join(staged, 'kernel', at), Buffer.from(code, 'base64'));
  }
  await openFolders(staged);
}

/** Another process may have been faster: one is as good as the other. */
export async function publish(staged: string, place: string): Promise<void> {
  try {
    await rename(staged, place);
  } catch (error) {
    await rm(staged, { recursive: true, force: true });
    const code = systemCode(error);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
}

async function put(path: string, data: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, data, { mode: 0o644 });
  await chmod(path, 0o644);
  // The same in every copy.
  await utimes(path, 0, 0);
}

/** Whatever the umask of this process is. */
async function openFolders(root: string): Promise<void> {
  await chmod(root, 0o755);
  const inside = await readdir(root, { recursive: true, withFileTypes: true });
  for (const entry of inside) {
    if (entry.isDirectory()) await chmod(join(entry.parentPath, entry.name), 0o755);
  }
}

/** Those below `parent` that were not used for long, but for those that are in use here. */
export async function removeUnused(parent: string, inUse: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    // there is none
    const path = join(parent, name);
    const facts = inUse.has(path) ? undefined : await stat(path).catch(() => undefined); // gone meanwhile
    if (facts && Date.now() - facts.mtimeMs > UNUSED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}

async function removeAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(STAGING_PREFIX)) continue;
    const path = join(parent, name);
    const made = await stat(path).catch(() => undefined); // it took its place meanwhile
    if (made && Date.now() - made.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
}
