import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeZip, type ZipFile } from '../../../../test/support/packages/wheels.ts';
import { ResolutionError } from './resolver-limits.ts';
import { readContent, readDirectory } from './zip.ts';

const MB = 1024 * 1024;
const limits = { files: 100, unpackedBytes: MB };
let folder = '';
let count = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cella-zip-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function unzip(bytes: Uint8Array): Promise<Record<string, string>> {
  count += 1;
  const path = join(folder, `${count}.zip`);
  await writeFile(path, bytes);
  await using file = await open(path);
  const found: Record<string, string> = {};
  for (const entry of await readDirectory(file, limits)) {
    if (!entry.isFolder) found[entry.path] = (await readContent(file, entry, MB)).toString('latin1');
  }
  return found;
}

const read = (...files: ZipFile[]) => unzip(makeZip(files));

describe('a zip', () => {
  it('returns the packed files', async () => {
    const text = fc.string({ unit: 'binary-ascii', maxLength: 2000 });
    const file = fc.record({
      path: fc.stringMatching(/^[a-z]{1,8}(\/[a-z]{1,8}){0,3}$/),
      content: text,
      deflated: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(file, { selector: ({ path }) => path, maxLength: 8 }), async (files) => {
        expect(await read(...files)).toEqual(Object.fromEntries(files.map(({ path, content }) => [path, content])));
      }),
      { numRuns: 15 },
    );
  });

  it('that was changed returns its contents or fails, and nothing else', async () => {
    const whole = makeZip([
      { path: 'a.py', content: 'print(1)\n'.repeat(50), deflated: true },
      { path: 'b/c.py', content: 'x' },
    ]);
    const changes = fc.array(fc.tuple(fc.nat({ max: whole.length - 1 }), fc.nat({ max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(changes, fc.nat({ max: whole.length }), async (some, cut) => {
        const changed = Buffer.from(whole);
        for (const [at, byte] of some) changed[at] = byte;
        for (const bytes of [changed, whole.subarray(0, cut), whole.subarray(cut)]) {
          await unzip(bytes).catch((error) => expect(error).toBeInstanceOf(ResolutionError));
        }
      }),
      { numRuns: 40 },
    );
  });

  it.each([
    ['leads up', '../evil.py'],
    ['leads up on its way', 'a/../../evil.py'],
    ['begins at the root', '/etc/evil.py'],
    ['goes through itself', 'a/./evil.py'],
    ['has an empty part', 'a//evil.py'],
    ['leads up elsewhere', '..\\evil.py'],
    ['names a drive', 'C:evil.py'],
    ['holds a null byte', 'evil\0.py'],
    ['holds a new line', 'evil\n.py'],
    ['has no end', 'e'.repeat(300)],
  ])('with a name that %s is refused', async (_what, path) => {
    await expect(read({ path, content: '' })).rejects.toThrow('leads out of its folder');
  });

  it.each<[string, Partial<ZipFile>, string]>([
    ['a link', { mode: 0o120777 }, 'neither file nor folder'],
    ['a device', { mode: 0o020666 }, 'neither file nor folder'],
    ['something encrypted', { flags: 0x0801 }, 'encrypted'],
    ['something packed otherwise', { method: 12 }, 'unknown compression'],
    ['a wrong checksum', { crc: 1 }, 'damaged'],
    ['more than it says', { bytes: 1 }, 'damaged'],
    ['less than it says', { bytes: 1000 }, 'damaged'],
    ['a bomb that says how large it is', { bytes: 2 * MB }, 'larger than'],
    ['two names for one file', { localPath: 'other.py' }, 'damaged'],
  ])('with %s is refused', async (_what, lie, why) => {
    await expect(read({ path: 'tiny.py', content: 'some content', ...lie })).rejects.toThrow(why);
    if (lie.method !== undefined) return;
    await expect(read({ path: 'tiny.py', content: 'some content', deflated: true, ...lie })).rejects.toThrow(why);
  });

  it('with a bomb that claims to be small is refused in time', async () => {
    const bomb = { path: 'bomb', content: Buffer.alloc(16 * MB), deflated: true, bytes: 10 };
    await expect(read(bomb)).rejects.toThrow('damaged');
  });

  it('with too many files, or one of them twice, is refused', async () => {
    const many = Array.from({ length: 101 }, (_, at) => ({ path: `f${at}`, content: '' }));
    await expect(read(...many)).rejects.toThrow('more than 100 files');
    await expect(read({ path: 'a', content: '1' }, { path: 'a', content: '2' })).rejects.toThrow('same name');
  });

  it.each(['', 'PK', 'PK\x05\x06', 'no zip at all'.repeat(10)])('%j is none', async (text) => {
    await expect(unzip(Buffer.from(text))).rejects.toThrow(ResolutionError);
  });
});
