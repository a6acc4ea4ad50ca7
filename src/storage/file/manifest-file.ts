/** manifest.json: a checkpoint's manifest, its place in the order, and a checksum over both. */

import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CHECKPOINT_FORMAT, Manifest } from '../../protocol/kernel-state.ts';
import { writeFileDurably } from './durable.ts';
import { openPlain } from './entries.ts';
import { explain, systemCode } from './failure.ts';

/** No manifest is nearly as long; what is, is not read into memory. */
const MAX_BYTES = 64 * 1024 * 1024;

export type StoredManifest =
  | { readonly kind: 'whole'; readonly manifest: Manifest; readonly sequence: number }
  | { readonly kind: 'damaged'; readonly reason: string }
  | { readonly kind: 'absent' };

export async function writeManifest(folder: string, manifest: Manifest, sequence: number): Promise<void> {
  const content = { ...manifest, sequence };
  await writeFileDurably(fileIn(folder), `${JSON.stringify({ ...content, checksum: checksum(content) })}\n`);
}

/** Whatever is there, this says what it is, and does not throw. */
export async function readManifest(folder: string): Promise<StoredManifest> {
  try {
    await using file = await openPlain(fileIn(folder));
    const { size } = file ? await file.stat() : await stat(fileIn(folder));
    if (!file) return damaged('the manifest cannot be read: it is no plain file');
    if (size > MAX_BYTES) return damaged(`the manifest has ${size} bytes`);
    return parse(await file.readFile('utf8'));
  } catch (error) {
    if (systemCode(error) === 'ENOENT' && !(await exists(folder))) return { kind: 'absent' };
    return damaged(`the manifest cannot be read: ${explain(error).reason}`);
  }
}

function parse(text: string): StoredManifest {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    return damaged('the manifest is not JSON');
  }
  if (typeof content !== 'object' || content === null) return damaged('the manifest is not an object');
  if ('format' in content && typeof content.format === 'number' && content.format > CHECKPOINT_FORMAT) {
    return damaged(
      `the manifest has format ${content.format}, and this Cella reads format ${CHECKPOINT_FORMAT}: use a newer one`,
    );
  }
  const { checksum: sum, ...rest } = content as { checksum?: unknown };
  if (sum !== checksum(rest)) return damaged('the manifest was changed or cut: its checksum does not fit');
  const { sequence, ...fields } = rest as { sequence?: unknown };
  const manifest = Manifest.safeParse(fields);
  if (!manifest.success) return damaged(`the manifest is not one: ${manifest.error.issues[0]?.message}`);
  return { kind: 'whole', manifest: manifest.data, sequence: Number(sequence) };
}

const damaged = (reason: string): StoredManifest => ({ kind: 'damaged', reason });

const checksum = (content: object): string => createHash('sha256').update(JSON.stringify(content)).digest('hex');

const fileIn = (folder: string): string => join(folder, 'manifest.json');

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
