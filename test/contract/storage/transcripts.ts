/** Transcripts: the latest revision of each, by agent key. */

import { expect, it } from 'vitest';
import { type OpenStorage, onePlace, transcriptOf } from './samples.ts';

export function transcriptContract(open: OpenStorage): void {
  it('are stored unchanged, with every character', async () => {
    const again = onePlace(open);
    const { transcripts } = await again();
    const text = 'é 🎉 \0 lone \ud800 \r\n';
    expect(await transcripts.get('a', 'one')).toBeUndefined();
    expect(await transcripts.put('a', 'one', { revision: 1, text })).toBe(true);
    expect(await transcriptOf((await again()).transcripts, 'a', 'one')).toEqual({ revision: 1, text });
  });

  it('of an earlier revision, or of the same, change nothing', async () => {
    const { transcripts } = await onePlace(open)();
    await transcripts.put('a', 'one', { revision: 10, text: 'ten' });
    for (const revision of [10, 9, 2]) {
      expect(await transcripts.put('a', 'one', { revision, text: 'late' })).toBe(false);
    }
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 10, text: 'ten' });
    expect(await transcripts.put('a', 'one', { revision: 11, text: '' })).toBe(true);
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 11, text: '' });
  });

  it('of the same length or shorter change nothing with `ifLonger`', async () => {
    const { transcripts } = await onePlace(open)();
    const put = (revision: number, text: string) => transcripts.put('a', 'one', { revision, text, ifLonger: true });
    expect(await put(1, 'four')).toBe(true);
    for (const text of ['', 'one', 'five']) expect(await put(2, text)).toBe(false);
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 1, text: 'four' });
    expect(await put(1, 'a longer one')).toBe(false);
    expect(await put(2, 'a longer one')).toBe(true);
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 2, text: 'a longer one' });
  });

  it('can arrive in pieces that are cut anywhere', async () => {
    const again = onePlace(open);
    const { transcripts } = await again();
    async function* pieces(parts: readonly string[]) {
      yield* parts;
    }
    const texts = {
      pairs: `x${'\u{1f40d}'.repeat(200_000)}`,
      escapes: `x${'\n'.repeat(200_000)}`,
      'long escapes': `xx${'\x01'.repeat(200_000)}`,
      'backslashes and quotes': `${'\\"'.repeat(100_000)}\\`,
      wide: `${'€é'.repeat(100_000)}`,
      halves: `x${'\udc80'.repeat(200_000)}`,
      nothing: '',
    };
    for (const [id, text] of Object.entries(texts)) {
      const parts = [text.slice(0, 7), text.slice(7, 300), text.slice(300)];
      await transcripts.put('a', id, { revision: 1, text: pieces(parts) });
      const read = await transcriptOf((await again()).transcripts, 'a', id);
      expect(read?.text === text, id).toBe(true);
    }
  });

  it('that end in the middle change nothing, and leave nothing behind', async () => {
    const { transcripts } = await onePlace(open)();
    await transcripts.put('a', 'one', { revision: 1, text: 'one' });
    const bytes = await transcripts.bytes('a');
    async function* broken() {
      yield 'x'.repeat(1_000_000);
      throw new Error('it broke off');
    }
    await expect(transcripts.put('a', 'one', { revision: 2, text: broken() })).rejects.toThrow('it broke off');
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 1, text: 'one' });
    expect(await transcripts.bytes('a')).toBe(bytes);
  });

  it('keep the old text for a reader while others replace them', async () => {
    const { transcripts } = await onePlace(open)();
    const text = 'old '.repeat(200_000);
    await transcripts.put('a', 'one', { revision: 1, text });
    let read = '';
    for await (const piece of (await transcripts.get('a', 'one'))?.text ?? []) {
      if (read === '') await transcripts.put('a', 'one', { revision: 2, text: 'new' });
      read += piece;
    }
    expect(read === text).toBe(true);
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 2, text: 'new' });
  });

  it('are listed in the order in which they were first stored, and are gone once deleted', async () => {
    const again = onePlace(open);
    const { transcripts } = await again();
    const ids = ['z', '../a', '\ud800', 'm'];
    for (const id of ids) await transcripts.put('a', id, { revision: 1, text: id });
    await transcripts.put('a', 'z', { revision: 2, text: 'z' });
    expect(await (await again()).transcripts.list('a')).toEqual(ids);
    expect(await transcripts.delete('a', '../a')).toBe(true);
    expect(await transcripts.delete('a', '../a')).toBe(false);
    expect(await transcripts.list('a')).toEqual(['z', '\ud800', 'm']);
    expect(await transcripts.list('b')).toEqual([]);
  });

  it('can have many megabytes, and their length is known', async () => {
    const again = onePlace(open);
    expect(await (await again()).transcripts.bytes('a')).toBe(0);
    const text = 'a line of some length\n'.repeat(500_000);
    await (await again()).transcripts.put('a', 'one', { revision: 1, text });
    expect((await transcriptOf((await again()).transcripts, 'a', 'one'))?.text === text).toBe(true);
    const { transcripts } = await again();
    await transcripts.put('a', 'two', { revision: 1, text: 'é'.repeat(1_000_000) });
    await transcripts.put('b', 'one', { revision: 1, text });
    // Told as it is stored, where ends of lines take two characters.
    const bytes = await transcripts.bytes('a');
    expect(bytes).toBeGreaterThanOrEqual(text.length + 2_000_000);
    expect(bytes).toBeLessThan(1.1 * text.length + 2_000_000);
  });

  it('of two concurrent writers are the later revision', async () => {
    const again = onePlace(open);
    const all = [(await again()).transcripts, (await again()).transcripts];
    const revisions = Array.from({ length: 20 }, (_, index) => ((index * 7) % 20) + 1);
    await Promise.all(
      revisions.map((revision, index) => all[index % 2]?.put('a', 'one', { revision, text: `${revision}` })),
    );
    const { transcripts } = await again();
    expect(await transcriptOf(transcripts, 'a', 'one')).toEqual({ revision: 20, text: '20' });
  });

  it('are deleted with their agent key', async () => {
    const storage = await onePlace(open)();
    for (const key of ['a', 'a/b']) await storage.transcripts.put(key, 'one', { revision: 1, text: key });
    await storage.deleteKey('a');
    expect(await storage.transcripts.list('a')).toEqual([]);
    expect(await storage.transcripts.get('a', 'one')).toBeUndefined();
    expect(await transcriptOf(storage.transcripts, 'a/b', 'one')).toEqual({ revision: 1, text: 'a/b' });
    expect(await storage.transcripts.put('a', 'one', { revision: 1, text: 'again' })).toBe(true);
  });
}
