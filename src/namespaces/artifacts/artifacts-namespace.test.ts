import { describe, expect, test } from 'vitest';
import { MemoryArtifacts } from '../../../test/support/namespaces/memory-stores.ts';
import type { ArtifactFacts } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { Artifacts } from './artifacts-namespace.ts';

const text = { type: 'text', mediaType: 'text/plain' } as const;
const context = {
  signal: new AbortController().signal,
  progress: () => undefined,
  whileAsking: <T>(work: () => Promise<T>) => work(),
};

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index++) yield new Uint8Array(size).fill(index);
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const read: Uint8Array[] = [];
  for await (const chunk of chunks) read.push(chunk);
  return read;
}

async function bytesOf(artifacts: Artifacts, name: string): Promise<Buffer> {
  const { chunks } = await artifacts.load(name);
  return Buffer.concat(await all(chunks));
}

/** As a kernel calls them. */
function kernel(store = new MemoryArtifacts(), limitBytes?: number) {
  const artifacts = new Artifacts({ store, ...(limitBytes !== undefined && { limitBytes }) });
  const { methods, closeAll } = artifacts.methods();
  const call = async (name: string, params: Record<string, unknown>): Promise<PyValue> => {
    const found = methods[`artifacts.${name}`];
    if (found === undefined) throw new Error(`no method ${name}`);
    return await found.perform(params, context);
  };
  return { artifacts, store, call, closeAll };
}

describe('artifacts for host callers', () => {
  test('are loaded as saved, with their metadata', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    const facts = { ...text, description: 'a greeting', metadata: { lang: 'en', n: [1, null] } };
    const info = await artifacts.save('note', Buffer.from('hello'), facts);
    expect(info).toMatchObject({ name: 'note', size: 5, ...facts });
    expect(await artifacts.get('note')).toEqual(info);
    expect(await artifacts.list()).toEqual([info]);
    expect((await bytesOf(artifacts, 'note')).toString()).toBe('hello');
    expect(await artifacts.exists('note')).toBe(true);
    await artifacts.delete('note');
    expect(await artifacts.exists('note')).toBe(false);
  });

  test('a stream of pieces is stored completely, and read in pieces', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    await artifacts.save('big', pieces(5, 700_000), { type: 'bytes', mediaType: 'application/octet-stream' });
    const { info, chunks } = await artifacts.load('big');
    const sizes = (await all(chunks)).map((chunk) => chunk.length);
    expect(info.size).toBe(3_500_000);
    expect(sizes.length).toBeGreaterThan(1);
    expect(sizes.reduce((sum, size) => sum + size)).toBe(3_500_000);
  });

  test('an empty artifact exists and has no bytes', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    await artifacts.save('nothing', new Uint8Array(), text);
    expect(await artifacts.exists('nothing')).toBe(true);
    expect((await bytesOf(artifacts, 'nothing')).length).toBe(0);
  });

  test.each(['../x', '', 'x'.repeat(300), 'a/b', 'a\\b', '.hidden', 'tab\there', 'a\0b', ' x'])(
    'the name %j is refused by every method',
    async (name) => {
      const artifacts = new Artifacts({ store: new MemoryArtifacts() });
      const refused = { code: 'INVALID_NAME' };
      await expect(artifacts.save(name, new Uint8Array(), text)).rejects.toMatchObject(refused);
      await expect(artifacts.load(name)).rejects.toMatchObject(refused);
      await expect(artifacts.get(name)).rejects.toMatchObject(refused);
      await expect(artifacts.exists(name)).rejects.toMatchObject(refused);
      await expect(artifacts.delete(name)).rejects.toMatchObject(refused);
    },
  );

  test('one name has one spelling', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    await artifacts.save('cafe\u0301', Buffer.from('x'), text);
    expect((await artifacts.get('caf\u00e9')).name).toBe('caf\u00e9');
  });

  test('a missing one is reported', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    const missing = { code: 'ARTIFACT_NOT_FOUND' };
    await expect(artifacts.get('x')).rejects.toMatchObject(missing);
    await expect(artifacts.load('x')).rejects.toMatchObject(missing);
    await expect(artifacts.delete('x')).rejects.toMatchObject(missing);
  });

  test('one that is too large keeps the previous one, and leaves nothing open', async () => {
    const store = new MemoryArtifacts();
    const artifacts = new Artifacts({ store, limitBytes: 1000 });
    await artifacts.save('x', Buffer.from('old'), text);
    const saving = artifacts.save('x', pieces(3, 400), text);
    await expect(saving).rejects.toMatchObject({ code: 'ARTIFACT_TOO_LARGE' });
    expect((await bytesOf(artifacts, 'x')).toString()).toBe('old');
    expect(store.unclosed).toBe(0);
  });

  test('a stream that fails keeps the previous one, and leaves nothing open', async () => {
    const store = new MemoryArtifacts();
    const artifacts = new Artifacts({ store });
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new Error('the disk is gone');
    }
    await expect(artifacts.save('x', failing(), text)).rejects.toThrow('the disk is gone');
    expect(await artifacts.exists('x')).toBe(false);
    expect(store.unclosed).toBe(0);
  });

  test('metadata has a size limit', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    const saving = artifacts.save('x', new Uint8Array(), { ...text, metadata: { long: 'x'.repeat(70_000) } });
    await expect(saving).rejects.toMatchObject({ code: 'ARTIFACT_INVALID' });
  });

  test('metadata has a limit on its parts, at every depth', async () => {
    const artifacts = new Artifacts({ store: new MemoryArtifacts() });
    const save = (metadata: ArtifactFacts['metadata']) => artifacts.save('x', new Uint8Array(), { ...text, metadata });
    const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);
    await save({ numbers: numbers(999) });
    const refused = { code: 'ARTIFACT_INVALID', message: expect.stringContaining('more than 1000 keys and items') };
    await expect(save({ numbers: numbers(1000) })).rejects.toMatchObject(refused);
    await expect(save(Object.fromEntries(numbers(1001).map((key) => [key, 0])))).rejects.toMatchObject(refused);
    await expect(save({ deep: numbers(300).map(() => ({ a: [0, 1] })) })).rejects.toMatchObject(refused);
  });

  test('a reader that stops early closes what it read', async () => {
    const store = new MemoryArtifacts();
    const artifacts = new Artifacts({ store });
    await artifacts.save('x', pieces(3, 1_000_000), text);
    for await (const _piece of (await artifacts.load('x')).chunks) break;
    expect(store.unclosed).toBe(0);
    {
      await using _unread = await artifacts.load('x');
      expect(store.unclosed).toBe(1);
    }
    expect(store.unclosed).toBe(0);
  });
});

describe('more artifacts than the limit', () => {
  test('are refused before a byte is written; existing ones can be replaced', async () => {
    const store = new MemoryArtifacts();
    const artifacts = new Artifacts({ store, most: 2 });
    for (const name of ['one', 'two', 'two']) await artifacts.save(name, Buffer.from('x'), text);
    const full = { code: 'QUOTA_EXCEEDED', message: expect.stringContaining('CELLA_MAX_ARTIFACTS') };
    await expect(artifacts.save('three', Buffer.from('x'), text)).rejects.toMatchObject(full);
    await artifacts.delete('one');
    await artifacts.save('three', Buffer.from('x'), text);
    expect(store.unclosed).toBe(0);
  });
});

describe('artifacts for the code of a kernel', () => {
  const finish = { ...text, description: '', metadata: {} };

  test('is written by handle, and read by handle', async () => {
    const { call, store } = kernel();
    const handle = await call('begin', { name: 'x' });
    expect(typeof handle).toBe('number');
    await call('write', { handle, data: Buffer.from('ab') });
    await call('write', { handle, data: Buffer.from('cd') });
    expect(await call('finish', { handle, ...finish })).toMatchObject({ name: 'x', size: 4 });
    const opened = (await call('open', { name: 'x' })) as { handle: number };
    expect(opened).toMatchObject({ info: { size: 4, type: 'text' } });
    const bytes = (await call('read', { handle: opened.handle, offset: 1, length: 2 })) as Uint8Array;
    expect(Buffer.from(bytes).toString()).toBe('bc');
    expect(await call('close', { handle: opened.handle })).toBeNull();
    expect(await call('list', {})).toMatchObject({ items: [{ name: 'x' }], more: false });
    expect(await call('get', { name: 'x' })).toMatchObject({ name: 'x' });
    expect(await call('delete', { name: 'x' })).toBeNull();
    expect(store.unclosed).toBe(0);
  });

  test('a list comes in pages, even if few items have much metadata', async () => {
    const { call, artifacts } = kernel();
    const long = { ...text, metadata: { long: 'x'.repeat(60_000) } };
    const names = Array.from({ length: 50 }, (_, number) => `a${number + 10}`);
    for (const name of names) await artifacts.save(name, new Uint8Array(), long);
    const seen: string[] = [];
    const pages: number[] = [];
    for (let more = true; more; ) {
      const page = (await call('list', { after: seen.at(-1) ?? '' })) as { items: { name: string }[]; more: boolean };
      seen.push(...page.items.map(({ name }) => name));
      pages.push(page.items.length);
      more = page.more;
    }
    expect(seen).toEqual(names);
    expect(pages).toEqual([18, 18, 14]);
  });

  test('pieces that are sent concurrently are stored in order', async () => {
    const { call, artifacts } = kernel();
    const handle = await call('begin', { name: 'x' });
    await Promise.all([...'abcdef'].map((letter) => call('write', { handle, data: Buffer.from(letter) })));
    await call('finish', { handle, ...finish });
    expect((await bytesOf(artifacts, 'x')).toString()).toBe('abcdef');
  });

  test('an unfinished one is invisible, and aborting leaves nothing', async () => {
    const { call, store } = kernel();
    const handle = await call('begin', { name: 'x' });
    await call('write', { handle, data: Buffer.from('ab') });
    await expect(call('get', { name: 'x' })).rejects.toMatchObject({ code: 'ARTIFACT_NOT_FOUND' });
    expect(await call('abort', { handle })).toBeNull();
    expect(await call('abort', { handle })).toBeNull();
    await expect(call('finish', { handle, ...finish })).rejects.toMatchObject({ code: 'ARTIFACT_INVALID' });
    expect(store.unclosed).toBe(0);
  });

  test('handles belong to one kernel, and to one use', async () => {
    const { call, artifacts } = kernel();
    const handle = await call('begin', { name: 'x' });
    const other = artifacts.methods().methods['artifacts.write'];
    const invalid = { code: 'ARTIFACT_INVALID' };
    await expect(other?.perform({ handle, data: Buffer.from('evil') }, context)).rejects.toMatchObject(invalid);
    await expect(call('read', { handle, offset: 0, length: 1 })).rejects.toMatchObject(invalid);
    await expect(call('write', { handle: 999, data: Buffer.from('') })).rejects.toMatchObject(invalid);
  });

  test('at most 64 are open, even with concurrent opens', async () => {
    const { call, closeAll, store } = kernel();
    const opening = Array.from({ length: 80 }, (_, index) => call('begin', { name: `x${index}` }));
    const ends = await Promise.allSettled(opening);
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(64);
    await closeAll();
    expect(store.unclosed).toBe(0);
  });

  test('the end of a kernel closes everything, including artifacts that are being opened', async () => {
    const { call, closeAll, store } = kernel();
    await call('begin', { name: 'x' });
    const coming = call('begin', { name: 'y' });
    await closeAll();
    await expect(coming).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    await expect(call('begin', { name: 'z' })).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    expect(store.unclosed).toBe(0);
  });

  test('one that is too large is dropped, and stays failed', async () => {
    const { call, store } = kernel(new MemoryArtifacts(), 10);
    const handle = await call('begin', { name: 'x' });
    const writing = call('write', { handle, data: new Uint8Array(11) });
    await expect(writing).rejects.toMatchObject({ code: 'ARTIFACT_TOO_LARGE' });
    await expect(call('finish', { handle, ...finish })).rejects.toMatchObject({ code: 'ARTIFACT_TOO_LARGE' });
    expect(store.unclosed).toBe(0);
    await expect(call('get', { name: 'x' })).rejects.toMatchObject({ code: 'ARTIFACT_NOT_FOUND' });
  });

  test.each([
    ['an unknown type', { ...finish, type: 'soup' }],
    ['metadata that is no object', { ...finish, metadata: [1] }],
    ['metadata that JSON cannot hold', { ...finish, metadata: { big: 2n ** 70n } }],
    ['metadata with bytes', { ...finish, metadata: { raw: new Uint8Array(2) } }],
    ['a media type that is no text', { ...finish, mediaType: 7 }],
    ['a description that is no text', { ...finish, description: 7 }],
  ])('%s is refused, and nothing stays open', async (_what, facts) => {
    const { call, store } = kernel();
    const handle = await call('begin', { name: 'x' });
    await expect(call('finish', { handle, ...facts })).rejects.toMatchObject({ code: 'ARTIFACT_INVALID' });
    expect(store.unclosed).toBe(0);
  });

  test.each([
    ['write', { handle: 1, data: 'text' }],
    ['write', { handle: 1, data: new Uint8Array(8 * 1024 * 1024 + 1) }],
    ['read', { handle: 1, offset: -1, length: 1 }],
    ['read', { handle: 1, offset: 0, length: 8 * 1024 * 1024 + 1 }],
    ['begin', { name: 'x', extra: 1 }],
    ['begin', { name: 7 }],
  ])('%s with wrong parameters is refused', async (name, params) => {
    const { call } = kernel();
    await call('begin', { name: 'x' });
    await expect(call(name, params)).rejects.toThrow();
  });
});
