/** Artifacts and texts that say by themselves whether they are whole: what they hold follows from their version. */

import type { ArtifactFacts } from '../../../src/protocol/namespace-models.ts';
import type { Storage } from '../../../src/storage/contract.ts';

export const PART_BYTES = 1024 * 1024;

export const partOf = (version: number): Buffer => Buffer.alloc(PART_BYTES, `${version} `);

export const textOf = (version: number): string => `${version}\n`.repeat(20_000);

export const factsOf = (version: number): ArtifactFacts => ({
  type: 'bytes',
  mediaType: 'application/octet-stream',
  description: String(version),
  metadata: {},
});

/** The version of artifact `a`, whose bytes must be all of that version; 0 where there is none. */
export async function wholeArtifact({ artifacts }: Storage): Promise<number> {
  await using reader = await artifacts.open('a');
  if (!reader) return 0;
  const version = Number(reader.info.description);
  if (reader.info.size % PART_BYTES !== 0) throw new Error(`version ${version} has ${reader.info.size} bytes`);
  for (let at = 0; at < reader.info.size; at += PART_BYTES) {
    const same = Buffer.compare(await reader.read(at, PART_BYTES), partOf(version)) === 0;
    if (!same) throw new Error(`version ${version} is something else at ${at}`);
  }
  return version;
}

/** The version of tool `t`; 0 where there is none. */
export async function wholeText({ tools }: Storage): Promise<number> {
  const text = (await tools.get('t'))?.text;
  if (text === undefined) return 0;
  const version = Number.parseInt(text, 10);
  if (text !== textOf(version)) throw new Error(`version ${version} of the text is not whole`);
  return version;
}
