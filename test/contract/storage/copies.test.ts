/** Copies between storages: everything that was asked for, nothing else, and what is there is left or replaced. */

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { ArtifactStore, BootstrapConfig, Storage } from '../../../src/storage/contract.ts';
import { type CopyProgress, copyNamespaces, type NamespaceKind } from '../../../src/storage/copy-namespaces.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { scratch } from '../../faults/storage/child-processes.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { bytesOf, failureOf, keep, plainFacts, sha256 } from './samples.ts';

let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

let prefixes = 0;
async function opened(type: string): Promise<Storage> {
  prefixes += 1;
  const config: BootstrapConfig =
    type === 'file'
      ? { type, path: join(scratch(), 'data') }
      : { type: 'redis', url: redis.url, prefix: `copy${prefixes}` };
  const storage = await storageFromBootstrap(config);
  onTestFinished(() => storage.close());
  return storage;
}

const all: readonly NamespaceKind[] = ['tools', 'skills', 'artifacts', 'deps'];
const large = Buffer.alloc(20_000_000, 'many bytes ');
const facts = { ...plainFacts, type: 'json' as const, description: 'numbers', metadata: { rows: 2 } };

async function filled(type: string): Promise<Storage> {
  const storage = await opened(type);
  await storage.tools.put('grep', 'name: grep');
  await storage.skills.put('café', 'async def run(): pass');
  await storage.skills.put('other', 'async def run(): return 1');
  await keep(storage, 'large', large, facts);
  await keep(storage, 'empty', Buffer.alloc(0));
  await storage.deps.add('requests>=2');
  return storage;
}

describe.each([
  ['file', 'redis'],
  ['redis', 'file'],
  ['redis', 'redis'],
])('from %s to %s', (from, to) => {
  it('copies everything, and reports each item', async () => {
    const [source, target] = [await filled(from), await opened(to)];
    const progress: CopyProgress[] = [];
    const result = await copyNamespaces(source, target, {
      kinds: all,
      overwrite: false,
      onProgress: (each) => progress.push(each),
    });
    expect(result.skipped).toEqual([]);
    expect(result.copied).toEqual([
      { kind: 'tools', name: 'grep' },
      { kind: 'skills', name: 'café' },
      { kind: 'skills', name: 'other' },
      { kind: 'artifacts', name: 'empty' },
      { kind: 'artifacts', name: 'large' },
      { kind: 'deps', name: 'requests>=2' },
    ]);
    expect(progress).toEqual(result.copied.map((each) => ({ ...each, done: 'copied' })));
    expect((await target.skills.get('café'))?.text).toBe('async def run(): pass');
    expect(await target.artifacts.get('large')).toMatchObject({ ...facts, size: large.length, sha256: sha256(large) });
    expect((await bytesOf(target, 'large'))?.equals(large)).toBe(true);
    expect(await target.deps.list()).toEqual(['requests>=2']);
  });
});

it('only the requested items are copied', async () => {
  const [source, target] = [await filled('file'), await opened('redis')];
  const names = ['cafe\u0301', 'Requests', 'grep'];
  const result = await copyNamespaces(source, target, { kinds: ['skills', 'deps'], names, overwrite: false });
  expect(result.copied).toEqual([
    { kind: 'skills', name: 'café' },
    { kind: 'deps', name: 'requests>=2' },
  ]);
  expect(await target.tools.list()).toEqual([]);
  expect((await target.skills.list()).map(({ name }) => name)).toEqual(['café']);
});

it('existing items are kept, or replaced', async () => {
  const [source, target] = [await filled('redis'), await opened('file')];
  await target.tools.put('grep', 'own');
  await keep(target, 'large', Buffer.from('own'));
  await target.deps.add('requests==1');
  const kept = await copyNamespaces(source, target, { kinds: ['tools', 'artifacts', 'deps'], overwrite: false });
  expect(kept.copied).toEqual([{ kind: 'artifacts', name: 'empty' }]);
  expect(kept.skipped.map(({ name }) => name)).toEqual(['grep', 'large', 'requests>=2']);
  expect((await target.tools.get('grep'))?.text).toBe('own');
  expect(await target.deps.list()).toEqual(['requests==1']);
  const replaced = await copyNamespaces(source, target, { kinds: ['tools', 'artifacts', 'deps'], overwrite: true });
  expect(replaced.copied).toHaveLength(4);
  expect((await target.tools.get('grep'))?.text).toBe('name: grep');
  expect((await bytesOf(target, 'large'))?.equals(large)).toBe(true);
  expect(await target.deps.list()).toEqual(['requests>=2']);
  // What is the same already is not told as left alone where all was to be replaced.
  const again = await copyNamespaces(source, target, { kinds: ['tools', 'artifacts', 'deps'], overwrite: true });
  expect(again.skipped).toEqual([]);
});

it('an artifact is never in memory as a whole', async () => {
  const [source, target] = [await filled('file'), await opened('file')];
  const sizes: number[] = [];
  const artifacts: ArtifactStore = {
    begin: (name) => source.artifacts.begin(name),
    get: (name) => source.artifacts.get(name),
    list: (page) => source.artifacts.list(page),
    holds: (count) => source.artifacts.holds(count),
    delete: (name) => source.artifacts.delete(name),
    unlistedBytes: () => source.artifacts.unlistedBytes(),
    open: async (name) => {
      const reader = await source.artifacts.open(name);
      return (
        reader && {
          info: reader.info,
          read: (offset, length) => {
            sizes.push(length);
            return reader.read(offset, length);
          },
          [Symbol.asyncDispose]: () => reader[Symbol.asyncDispose](),
        }
      );
    },
  };
  const watched: Storage = Object.create(source, { artifacts: { value: artifacts } });
  await copyNamespaces(watched, target, { kinds: ['artifacts'], overwrite: false });
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1024 * 1024);
  expect((await bytesOf(target, 'large'))?.equals(large)).toBe(true);
});

it.each([
  undefined,
  {},
  'redis://127.0.0.1',
  { type: 'file' },
  { type: 'file', path: '' },
  { type: 'file', path: '/x', more: 1 },
  { type: 'redis', url: 'redis://:s3cret@h' },
  { type: 's3cret' },
])('no storage opens from %j, and the error does not show it', async (config) => {
  const error = await failureOf(storageFromBootstrap(config));
  expect(error.code).toBe('INVALID_OPTIONS');
  expect(error.message).not.toContain('s3cret');
});
