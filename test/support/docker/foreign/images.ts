/** Images that have nothing of this machine: their roots are made once, and kept in the checkout's cache folder. */

import { createHash } from 'node:crypto';
import { createReadStream, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { chmod, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Engine } from '../../../../src/environments/container/engine.ts';
import { command } from './commands.ts';
import { unpackBullseye } from './debian-python.ts';
import { buildMusl } from './musl-python.ts';

/** Each with the files that say how it is made: what is made otherwise is another root. */
const roots = {
  bullseye: { make: unpackBullseye, recipe: ['debian-python.ts'] },
  musl: { make: buildMusl, recipe: ['musl-python.ts', 'native-module.ts'] },
} as const;

export type ForeignRoot = keyof typeof roots;

/** Whoever comes first has the root made. */
export const MAKING_MS = 40 * 60_000;

const cache = fileURLToPath(new URL('../../../../.cache/roots', import.meta.url));
const PEOPLE = 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n';

export async function foreignImage(engine: Engine, name: ForeignRoot): Promise<string> {
  const archive = createReadStream(await rootOf(name));
  const options = { repo: `cella-foreign-${name}`, tag: 'test', changes: ['ENV PATH=/usr/local/bin:/usr/bin:/bin'] };
  const said = await text(await engine.docker.importImage(archive, options));
  if (said.includes('"error"')) throw new Error(`the root of ${name} was not imported: ${said}`);
  return `${options.repo}:${options.tag}`;
}

export async function rootOf(name: ForeignRoot): Promise<string> {
  const path = join(cache, `${name}-${recipeOf(name)}.tar`);
  if (existsSync(path)) return path;
  console.error(`Making the root of ${name}, which is kept in ${path} …`);
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(tmpdir(), 'cella-root-'));
  try {
    await chmod(work, 0o755);
    const root = join(work, 'root');
    for (const folder of ['etc', 'tmp', 'root', 'bin']) mkdirSync(join(root, folder), { recursive: true });
    await roots[name].make(work, root);
    await chmod(join(root, 'tmp'), 0o1777);
    writeFileSync(join(root, 'etc', 'passwd'), PEOPLE);
    const archive = ['--create', '--numeric-owner', '--owner=0', '--group=0', '--directory', root];
    await command(['tar', ...archive, '--file', join(work, 'root.tar'), '.']);
    await Promise.all(globSync(join(cache, `${name}-*.tar`)).map((old) => rm(old, { force: true })));
    // Whole, or not there: the temporary folder may be on another disk.
    await command(['cp', join(work, 'root.tar'), `${path}.part`]);
    await rename(`${path}.part`, path);
    return path;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function recipeOf(name: ForeignRoot): string {
  const hash = createHash('sha256');
  for (const file of roots[name].recipe) hash.update(readFileSync(new URL(file, import.meta.url)));
  return hash.digest('hex').slice(0, 12);
}
