/** A wheel on disk: looked into, and unpacked. Nothing in it is run. */

import { chmod, mkdir, open, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { packageName } from '../../../protocol/requirement.ts';
import { Failed } from './failed.ts';
import type { Limits } from './limits.ts';
import { type Metadata, parseMetadata } from './metadata.ts';
import { pureOnly } from './target.ts';
import { contentOf, readContent } from './zip-content.ts';
import { readDirectory, staysInside, type ZipEntry } from './zip-directory.ts';

/** Of native code, whatever the name of its wheel says. */
export const NATIVE = /\.(?:so(?:\.\d+)*|pyd|dylib)$/i;
const INFO = /^([^/]+)-([^/-]+)\.dist-info\/METADATA$/;
/** A larger one is a program, not a script. */
const LARGEST_SCRIPT = 1024 * 1024;
const DATA = /^[^/]+\.data\/([^/]+)\/(.+)$/;

export async function readWheelMetadata(path: string, limits: Limits): Promise<{ metadata: Metadata; text: string }> {
  await using file = await open(path);
  const entries = await readDirectory(file, limits);
  const found = entries.filter(({ path: at }) => INFO.test(at));
  const [entry] = found;
  if (!entry || found.length > 1) throw new Failed('it does not say what it is');
  const text = (await readContent(file, entry, limits.metadataBytes)).toString('utf8');
  const metadata = parseMetadata(text);
  const [, name = ''] = INFO.exec(entry.path) ?? [];
  if (metadata?.name !== packageName(name)) throw new Failed('it does not say what it is');
  return { metadata, text };
}

export interface Unpacking {
  readonly folder: string;
  /** No native code is taken. */
  readonly pure: boolean;
  readonly limits: Limits;
  readonly signal: AbortSignal;
}

/** Gives the bytes that it has written. */
export async function unpackWheel(path: string, { folder, pure, limits, signal }: Unpacking): Promise<number> {
  await using file = await open(path);
  const files = (await readDirectory(file, limits)).filter(({ isFolder }) => !isFolder);
  const native = files.find(({ path: at }) => NATIVE.test(at));
  if (pure && native) throw new Failed(`it has native code (${native.path}), ${pureOnly}`);
  const places = files.flatMap((entry) => {
    const to = placeOf(entry.path);
    return to === undefined ? [] : [{ entry, to }];
  });
  if (new Set(places.map(({ to }) => to)).size < places.length) throw new Failed('two files in it have the same place');
  for (const { entry, to } of places) {
    signal.throwIfAborted();
    const target = join(folder, to);
    await mkdir(dirname(target), { recursive: true });
    const isScript = to !== entry.path && to.startsWith('bin/');
    await writeFile(
      target,
      isScript && entry.bytes <= LARGEST_SCRIPT ? await script(file, entry) : contentOf(file, entry),
    );
    if (entry.isExecutable || isScript) await chmod(target, 0o755);
  }
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Where it goes in the set. Headers are for compilers, and go nowhere. */
function placeOf(path: string): string | undefined {
  const [, kind, rest = ''] = DATA.exec(path) ?? [];
  if (kind === undefined) return path;
  if (!staysInside(rest)) throw new Failed(`${JSON.stringify(path)} in it leads out of its folder`);
  if (kind === 'purelib' || kind === 'platlib' || kind === 'data') return rest;
  return kind === 'scripts' ? `bin/${rest}` : undefined;
}

/** `#!python` stands for whichever Python finds it. */
async function script(file: Parameters<typeof contentOf>[0], entry: ZipEntry): Promise<Buffer> {
  const content = await readContent(file, entry, LARGEST_SCRIPT);
  const end = content.indexOf('\n');
  if (!/^#!pythonw?\s*$/.test(content.toString('latin1', 0, Math.min(end, 40)))) return content;
  return Buffer.concat([Buffer.from('#!/usr/bin/env python3'), content.subarray(end)]);
}
