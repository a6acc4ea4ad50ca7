/** Checkpoints: whole or not there, in the order in which they were finished. */

import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { failureOf, idsOf, manifestOf, type OpenStorage, onePlace, save, textsOf } from './samples.ts';

export function checkpointContract(open: OpenStorage): void {
  it('are the same in another storage on the same data, byte for byte', async () => {
    const again = onePlace(open);
    const segments = [Buffer.from('first'), Buffer.alloc(0), Buffer.from([0, 255, 10, 13])];
    const manifest = await save(await again(), 'a', 'one', segments, { name: 'before the change' });
    const other = await again();
    expect(await other.checkpoints.list('a')).toEqual([
      { id: 'one', name: 'before the change', kind: 'checkpoint', createdAt: manifest.createdAt },
    ]);
    expect(await other.checkpoints.bytes('a')).toBeGreaterThanOrEqual(manifest.bytes);
    expect(await other.checkpoints.bytes('b')).toBe(0);
    expect(await other.checkpoints.get('a', 'one')).toEqual(manifest);
    for (const [index, bytes] of segments.entries()) {
      expect(Buffer.from((await other.checkpoints.read('a', manifest, index)) ?? 'nothing')).toEqual(bytes);
    }
    expect(await other.checkpoints.read('a', manifest, 3)).toBeUndefined();
    expect(await other.checkpoints.damaged('a')).toEqual([]);
  });

  it('can be empty', async () => {
    const storage = await onePlace(open)();
    const manifest = await save(storage, 'a', 'empty', []);
    expect(await storage.checkpoints.get('a', 'empty')).toEqual(manifest);
  });

  it('can have segments that are longer than a chunk, begin anywhere, and arrive in pieces of any size', async () => {
    const storage = await onePlace(open)();
    const segments = [randomBytes(3), randomBytes(9_000_001), randomBytes(16 * 1024 * 1024), randomBytes(5)];
    const manifest = manifestOf('large', segments);
    const writer = await storage.checkpoints.begin('a');
    const all = Buffer.concat(segments);
    const pieces: Promise<void>[] = [];
    // Not awaited one by one: they are carried out in the order of the calls.
    for (let from = 0, size = 1; from < all.length; from += size, size = (size * 7) % 3_000_017) {
      pieces.push(writer.write(all.subarray(from, from + size)));
    }
    await Promise.all(pieces);
    await writer.finish(manifest);
    for (const [index, bytes] of segments.entries()) {
      const found = await storage.checkpoints.read('a', manifest, index);
      expect(Buffer.compare(bytes, found ?? Buffer.alloc(0))).toBe(0);
    }
  });

  it('do not exist before they are finished, nor after they are aborted', async () => {
    const again = onePlace(open);
    const [storage, other] = [await again(), await again()];
    const writer = await storage.checkpoints.begin('a');
    await writer.write(Buffer.from('data of one'));
    for (const each of [storage, other]) expect(await idsOf(each, 'a')).toEqual([]);
    await writer.abort();
    await writer.abort();
    expect((await failureOf(writer.write(Buffer.from('more')))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(writer.finish(manifestOf('one', [])))).code).toBe('STORAGE_FAILED');
    {
      await using dropped = await storage.checkpoints.begin('a');
      await dropped.write(Buffer.from('data'));
    }
    for (const each of [storage, other]) {
      expect(await idsOf(each, 'a')).toEqual([]);
      expect(await each.checkpoints.damaged('a')).toEqual([]);
    }
  });

  it('stay if their writer is aborted after it has finished', async () => {
    const storage = await onePlace(open)();
    const writer = await storage.checkpoints.begin('a');
    await writer.finish(manifestOf('one', []));
    await writer.abort();
    expect(await idsOf(storage, 'a')).toEqual(['one']);
  });

  it('are listed in the order in which they were finished, whatever the clock said', async () => {
    const again = onePlace(open);
    const storage = await again();
    await save(storage, 'a', 'z', undefined, { createdAt: 3000 });
    await save(storage, 'a', 'm', undefined, { createdAt: 2000 });
    await save(await again(), 'a', 'x', undefined, { createdAt: 1000 });
    expect(await idsOf(storage, 'a')).toEqual(['z', 'm', 'x']);
    await storage.checkpoints.delete('a', 'm');
    await save(storage, 'a', 'b', undefined, { createdAt: 0 });
    expect(await idsOf(await again(), 'a')).toEqual(['z', 'x', 'b']);
  });

  it('are written several at a time, each with its own data', async () => {
    const storage = await onePlace(open)();
    const ids = Array.from({ length: 8 }, (_, index) => `id${index}`);
    await Promise.all(ids.map((id) => save(storage, 'a', id)));
    expect((await idsOf(storage, 'a')).sort()).toEqual(ids);
    for (const id of ids) expect(await textsOf(storage, 'a', id)).toEqual([`data of ${id}`]);
  });

  it('are refused if the id is taken, and the first one stays unchanged', async () => {
    const storage = await onePlace(open)();
    await save(storage, 'a', 'one', [Buffer.from('first')]);
    const error = await failureOf(save(storage, 'a', 'one', [Buffer.from('second')]));
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('one') });
    expect(await textsOf(storage, 'a', 'one')).toEqual(['first']);
    const both = await Promise.allSettled([save(storage, 'a', 'two'), save(storage, 'a', 'two')]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await textsOf(storage, 'a', 'two')).toEqual(['data of two']);
  });

  it('are refused if the manifest is invalid or does not fit the data', async () => {
    const storage = await onePlace(open)();
    for (const manifest of [
      manifestOf('short', [Buffer.from('longer than what came')]),
      manifestOf('', [Buffer.from('data')]),
      { ...manifestOf('x', [Buffer.from('data')]), format: 3 },
    ]) {
      await using writer = await storage.checkpoints.begin('a');
      await writer.write(Buffer.from('data'));
      expect((await failureOf(writer.finish(manifest as never))).code).toBe('STORAGE_FAILED');
    }
    expect(await idsOf(storage, 'a')).toEqual([]);
    expect(await storage.checkpoints.damaged('a')).toEqual([]);
  });

  it.each(['../../etc/passwd', 'a/b', '.', '..', '-', '😀', 'x'.repeat(64), '\ud800', 'A B'])(
    'have ids of any text: %j',
    async (id) => {
      const storage = await onePlace(open)();
      expect(await storage.checkpoints.get('a', id)).toBeUndefined();
      expect(await storage.checkpoints.delete('a', id)).toBe(false);
      await save(storage, 'a', id);
      await save(storage, 'a', 'another');
      expect(await idsOf(storage, 'a')).toEqual([id, 'another']);
      expect(await textsOf(storage, 'a', id)).toEqual([`data of ${id}`.toWellFormed()]);
      expect(await storage.checkpoints.delete('a', id)).toBe(true);
      expect(await idsOf(storage, 'a')).toEqual(['another']);
    },
  );

  it('are gone once deleted, and only those', async () => {
    const again = onePlace(open);
    const storage = await again();
    const manifest = await save(storage, 'a', 'one');
    await save(storage, 'a', 'two');
    expect(await storage.checkpoints.delete('a', 'one')).toBe(true);
    expect(await storage.checkpoints.delete('a', 'one')).toBe(false);
    const other = await again();
    expect(await idsOf(other, 'a')).toEqual(['two']);
    expect(await other.checkpoints.get('a', 'one')).toBeUndefined();
    expect(await other.checkpoints.read('a', manifest, 0)).toBeUndefined();
    await save(other, 'a', 'one', [Buffer.from('again')]);
    expect(await textsOf(storage, 'a', 'one')).toEqual(['again']);
  });

  it('that are unfinished are dropped when the storage is closed', async () => {
    const again = onePlace(open);
    const storage = await again();
    const writer = await storage.checkpoints.begin('a');
    await writer.write(Buffer.from('data'));
    await storage.close();
    await storage.close();
    expect((await failureOf(writer.finish(manifestOf('one', [Buffer.from('data')])))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(storage.checkpoints.begin('a'))).code).toBe('STORAGE_FAILED');
    expect((await failureOf(storage.checkpoints.delete('a', 'one'))).code).toBe('STORAGE_FAILED');
    expect(await idsOf(await again(), 'a')).toEqual([]);
  });
}
