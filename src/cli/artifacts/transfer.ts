/** Artifacts in and out of a storage, a piece at a time: one of any size takes little memory. */

import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import type { ArtifactFacts } from '../../protocol/namespace-models.ts';
import type { ArtifactsApi } from '../../session/api.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { escapeControls, formatSize } from '../format.ts';
import { unreadable } from '../terminal/line-input.ts';

/** To a file, or to stdout where none is named. */
export async function get(
  artifacts: ArtifactsApi,
  { name, out }: { readonly name: string; readonly out: string | undefined },
  report: CommandOutput,
): Promise<number> {
  const { terminal } = report;
  if (out === undefined || out === '-') {
    const { info, chunks } = await artifacts.load(name);
    if (terminal.stdout.isTTY && !isText(info)) {
      throw new UsageError(
        `The artifact ${JSON.stringify(name)} is ${info.mediaType}, which a terminal cannot show.`,
        'Write it to a file with --out FILE, or send it on: cella artifacts get NAME | PROGRAM.',
      );
    }
    for await (const chunk of chunks) await write(terminal.stdout, chunk);
    if (terminal.stdout.isTTY) await terminal.out('\n');
    return Exit.ok;
  }
  const { info, chunks } = await artifacts.load(name);
  await writeFile(out, chunks);
  await report.success({ artifact: info, out }, `Wrote ${escapeControls(out)}, ${formatSize(info.size)}.`);
  return Exit.ok;
}

export interface PutRequest {
  readonly name: string;
  /** `-` is stdin. */
  readonly file: string;
  readonly facts: Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>;
}

export async function put(artifacts: ArtifactsApi, request: PutRequest, report: CommandOutput): Promise<number> {
  const { name, file, facts } = request;
  if (file !== '-') await checkFile(file);
  const content: AsyncIterable<Uint8Array> = file === '-' ? report.terminal.stdin : createReadStream(file);
  const artifact = await artifacts.save(name, bytesOf(content), facts);
  const text = `Kept the artifact ${JSON.stringify(artifact.name)} (${artifact.type}, ${formatSize(artifact.size)}).`;
  await report.success({ artifact }, text);
  return Exit.ok;
}

/** A stdin that was given an encoding has texts in it. */
async function* bytesOf(content: AsyncIterable<Uint8Array | string>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of content) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
}

async function checkFile(file: string): Promise<void> {
  const facts = await stat(file).catch((error) => {
    throw unreadable(file, error, 'Name a file, or - for stdin.');
  });
  if (facts.isDirectory()) throw new UsageError(`${file} is a folder.`, 'Name a file, or - for stdin.');
}

/** Whoever looks at the file sees what was there before, or all of it. */
async function writeFile(path: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const part = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}`);
  try {
    await using file = await open(part, 'wx');
    for await (const chunk of chunks) await file.write(chunk);
    await file.close();
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!['ENOENT', 'ENOTDIR', 'EISDIR', 'EACCES', 'EROFS', 'ENOSPC'].includes(code)) throw error;
    throw new UsageError(`${path} cannot be written (${code}).`, 'Choose another file with --out.');
  }
}

function isText({ type, mediaType }: Pick<ArtifactFacts, 'type' | 'mediaType'>): boolean {
  return type === 'text' || type === 'json' || mediaType.startsWith('text/') || /[/+](json|xml|yaml)$/.test(mediaType);
}

function write(stream: Writable, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => stream.write(bytes, (error) => (error ? reject(error) : resolve())));
}
