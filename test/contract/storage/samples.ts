/** Places, checkpoints and records to try a storage with. */

import { createHash, randomUUID } from 'node:crypto';
import { expect, onTestFinished } from 'vitest';
import { CellaError } from '../../../src/protocol/errors.ts';
import type { Manifest } from '../../../src/protocol/kernel-state.ts';
import type { ArtifactFacts, ArtifactInfo } from '../../../src/protocol/namespace-models.ts';
import type { Clock, LoggedEvent, Storage, TranscriptStore } from '../../../src/storage/contract.ts';
import type { SessionRecord } from '../../../src/storage/session-record.ts';

/** Opens a storage on a place that this name stands for: the same name finds the same data. */
export type OpenStorage = (place: string, options?: { readonly clock?: Clock }) => Promise<Storage>;

/** A fresh place: each call opens another storage on it, and all are closed after the test. */
export function onePlace(open: OpenStorage): (options?: { readonly clock?: Clock }) => Promise<Storage> {
  const place = randomUUID();
  return async (options) => {
    const storage = await open(place, options);
    onTestFinished(() => storage.close());
    return storage;
  };
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export function manifestOf(id: string, segments: readonly Uint8Array[], more: Partial<Manifest> = {}): Manifest {
  return {
    format: 1,
    id,
    kind: 'checkpoint',
    createdAt: 1_700_000_000_000,
    python: '3.11.2',
    execution: 1,
    bytes: segments.reduce((sum, { length }) => sum + length, 0),
    saved: segments.map((_, index) => `name${index}`),
    lost: [{ name: 'sock', reason: 'cannot be saved' }],
    segments: segments.map((bytes, index) => ({
      kind: 'pickle',
      names: [`name${index}`],
      portable: false,
      bytes: bytes.length,
      sha256: sha256(bytes),
    })),
    ...more,
  };
}

/** Writes a checkpoint and finishes it. */
export async function save(
  { checkpoints }: Storage,
  agentKey: string,
  id: string,
  segments: readonly Uint8Array[] = [Buffer.from(`data of ${id}`)],
  more: Partial<Manifest> = {},
): Promise<Manifest> {
  const manifest = manifestOf(id, segments, more);
  await using writer = await checkpoints.begin(agentKey);
  for (const bytes of segments) await writer.write(bytes);
  await writer.finish(manifest);
  return manifest;
}

export async function idsOf({ checkpoints }: Storage, agentKey: string): Promise<string[]> {
  return (await checkpoints.list(agentKey)).map(({ id }) => id);
}

/** The segments as text, `undefined` where one did not come back. */
export async function textsOf(storage: Storage, agentKey: string, id: string): Promise<(string | undefined)[]> {
  const manifest = await storage.checkpoints.get(agentKey, id);
  if (!manifest) throw new Error(`there is no checkpoint ${id}`);
  const segments = manifest.segments.map((_, index) => storage.checkpoints.read(agentKey, manifest, index));
  // Both ways to read must agree.
  const inOrder: (Uint8Array | undefined)[] = [];
  for await (const bytes of storage.checkpoints.segments(agentKey, manifest)) inOrder.push(bytes);
  const same = (await Promise.all(segments)).every(
    (one, index) => Buffer.compare(buffer(one), buffer(inOrder[index])) === 0,
  );
  if (!same || inOrder.length !== segments.length) throw new Error('read and segments do not agree');
  return (await Promise.all(segments)).map((bytes) => bytes && Buffer.from(bytes).toString());
}

export function recordOf(agentKey: string, more: Partial<SessionRecord> = {}): SessionRecord {
  return {
    agentKey,
    createdAt: 1_700_000_000_000,
    updatedAt: 1_700_000_001_000,
    lastUsedAt: 1_700_000_001_000,
    executions: 2,
    state: 'live',
    history: [{ execution: 1, code: 'x = 1', status: 'ok' }],
    ...more,
  };
}

export async function eventsOf(storage: Storage, agentKey: string, after = 0): Promise<LoggedEvent[]> {
  return collect(storage.events.read(agentKey, { after }));
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

export const goodNames = [
  'plain',
  'with blank',
  'a:b{c}*?[d]',
  '%41',
  'ß',
  '名前',
  '🎉',
  'x'.repeat(128),
  'quote\'"$(x)`',
];
export const badNames = [
  '',
  '../x',
  'a/b',
  'a\\b',
  '.hidden',
  '..',
  'a\0b',
  'a\nb',
  ' a',
  'a ',
  'lone\ud800',
  'x'.repeat(300),
];

export const plainFacts: ArtifactFacts = {
  type: 'bytes',
  mediaType: 'application/octet-stream',
  description: '',
  metadata: {},
};

/** Writes an artifact, in parts, and finishes it. */
export async function keep(
  { artifacts }: Storage,
  name: string,
  bytes: Uint8Array,
  facts: ArtifactFacts = plainFacts,
  partBytes = 1024 * 1024,
): Promise<ArtifactInfo> {
  await using writer = await artifacts.begin(name);
  for (let at = 0; at < bytes.length; at += partBytes) await writer.write(bytes.subarray(at, at + partBytes));
  return await writer.finish(facts);
}

export async function bytesOf({ artifacts }: Storage, name: string): Promise<Buffer | undefined> {
  await using reader = await artifacts.open(name);
  return reader && Buffer.from(await reader.read(0, reader.info.size));
}

/** The error that a promise is rejected with, which must be one of ours. */
export async function failureOf(promise: Promise<unknown>): Promise<CellaError> {
  const error = await promise.then(
    () => new Error('it did not fail'),
    (reason: unknown) => reason,
  );
  if (error instanceof CellaError) return error;
  throw error;
}

const buffer = (bytes: Uint8Array | undefined): Buffer =>
  bytes ? Buffer.concat([Buffer.from('+'), bytes]) : Buffer.from('-');

/** A transcript with its whole text. */
export async function transcriptOf(store: TranscriptStore, agentKey: string, id: string) {
  const found = await store.get(agentKey, id);
  if (!found) return undefined;
  let text = '';
  for await (const piece of found.text) text += piece;
  expect(found.length).toBe(text.length);
  return { revision: found.revision, text };
}
