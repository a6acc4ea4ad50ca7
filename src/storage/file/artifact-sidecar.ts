/** `.about/NAME.json`: the facts of an artifact, for the file that is there and for the one that it replaces. */

import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { giveWay } from '../../lib/event-loop.ts';
import { isStable } from '../../lib/private-file.ts';
import { ArtifactInfo } from '../../protocol/namespace-models.ts';
import { factsByName } from '../media-types.ts';
import { openRegularFile } from './regular-files.ts';

/** `stamp` is the version of the file. While it matches, the checksum is still right. */
const SidecarEntry = ArtifactInfo.extend({ stamp: z.string() });
export type SidecarEntry = z.infer<typeof SidecarEntry>;

const About = z.object({ newestFirst: z.array(SidecarEntry) });

export const sidecarPath = (folder: string, name: string): string => join(folder, '.about', `${name}.json`);

export const sidecarText = (newestFirst: readonly SidecarEntry[]): string =>
  `${JSON.stringify({ newestFirst }, null, 1)}\n`;

/** Empty if there is none or it is corrupt: the bytes are still there. */
export async function readSidecar(folder: string, name: string): Promise<readonly SidecarEntry[]> {
  try {
    await using file = await openRegularFile(sidecarPath(folder, name));
    if (!file) return [];
    const text = await file.readFile('utf8');
    // Many are read at once, and each may say much.
    await giveWay();
    const parsed = About.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data.newestFirst : [];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

/** Two files may be of one size and one tick of the clock, but not in one place. */
export const fileVersion = ({ ino, size, mtimeNs }: BigIntStats): string => [ino, size, mtimeNs].join(' ');

/** Those of an open file. A file that a person has changed keeps its type and description. */
export async function infoOf(name: string, file: FileHandle, about: readonly SidecarEntry[]): Promise<SidecarEntry> {
  const facts = await file.stat({ bigint: true });
  const stamp = fileVersion(facts);
  const same = about.find((known) => known.stamp === stamp);
  if (same) return { ...same, name };
  const own = { name, size: Number(facts.size), sha256: await sumOf(file, facts), stamp };
  const copied = about.find((known) => known.sha256 === own.sha256);
  if (copied) return { ...copied, ...own };
  const at = Number(facts.mtimeMs);
  const [newest] = about;
  return { createdAt: at, ...factsByName(name), ...newest, ...own, updatedAt: at };
}

const PART_BYTES = 1024 * 1024;
const MOST_SUMS = 1000;
/** Checksums of files that people wrote, so that a list does not read all of them each time. */
const sums = new Map<string, string>();

async function sumOf(file: FileHandle, facts: BigIntStats): Promise<string> {
  const key = [facts.dev, fileVersion(facts), facts.ctimeNs].join(' ');
  const known = sums.get(key);
  if (known !== undefined) return known;
  const settled = isStable(facts);
  const sum = await makeSum(file);
  if (sums.size >= MOST_SUMS) sums.clear();
  if (settled) sums.set(key, sum);
  return sum;
}

async function makeSum(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const part = Buffer.alloc(PART_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(part, 0, part.length, at);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(part.subarray(0, bytesRead));
    at += bytesRead;
  }
}
