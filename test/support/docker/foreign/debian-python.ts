/** The root of an image with the Python of another release of Debian, from that release's own packages. */

import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { DebianArchive } from './debian-archive.ts';

/** Debian 11: Python 3.9 on glibc 2.31, both older than what a host of today has. */
export async function unpackBullseye(work: string, root: string): Promise<void> {
  mkdirSync(join(work, 'archive'));
  const archive = await DebianArchive.open(join(work, 'archive'), 'bullseye');
  await archive.unpack(['python3', 'dash', 'coreutils', 'procps'], root);
  if (!existsSync(join(root, 'bin', 'sh'))) symlinkSync('dash', join(root, 'bin', 'sh'));
}
