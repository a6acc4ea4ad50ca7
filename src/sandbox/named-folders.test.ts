import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { Mount } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import { folderId, resolveFolder, writableFolder } from './named-folders.ts';

/** Swaps two names as fast as possible. */
const SWAPPING = `
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = (path.encode() for path in sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)
`;
const ROUNDS = 30_000;

const root = process.getuid?.() === 0;

it.runIf(root)('a folder is mounted under its own owner, even if code swaps a folder above it', async () => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'cella-named-')));
  const [path, elsewhere] = [join(top, 'a', 'b'), join(top, 'elsewhere', 'b')];
  for (const folder of [path, elsewhere]) mkdirSync(folder, { recursive: true });
  chownSync(path, 1234, 1234);
  // Through the link, the same path leads to a folder of root.
  symlinkSync('elsewhere', join(top, 'link'));
  const recorded = folderId(path);
  expect(writableFolder(path, { root, recorded })).toMatchObject({ owner: [1234, 1234] });
  const swapping = spawn('python3', ['-c', SWAPPING, join(top, 'a'), join(top, 'link')]);
  const ended = once(swapping, 'exit');
  onTestFinished(async () => {
    swapping.kill('SIGKILL');
    await ended;
    rmSync(top, { recursive: true, force: true });
  });
  await once(swapping.stdout, 'data');
  const found = Array.from({ length: ROUNDS }, () => mountOrRefused(path, recorded));
  const mounts = found.filter((mount) => mount !== undefined);
  expect(mounts.length).toBeGreaterThan(0);
  expect(mounts.length).toBeLessThan(ROUNDS);
  // With one call for the owner and another for the identity, some mounts would have the owner root.
  expect(mounts.filter(({ owner }) => String(owner) !== '1234,1234')).toEqual([]);
});

function mountOrRefused(path: string, recorded: Mount['id']): Mount | undefined {
  try {
    return writableFolder(path, { root: true, recorded });
  } catch (error) {
    if (error instanceof CellaError && error.code === 'FOLDER_REPLACED') return undefined;
    throw error;
  }
}

it('a link above a folder is refused in the same way, whether its target exists or not', () => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'cella-named-')));
  onTestFinished(() => rmSync(top, { recursive: true, force: true }));
  mkdirSync(join(top, 'folder', 'b'), { recursive: true });
  mkdirSync(join(top, 'file'));
  writeFileSync(join(top, 'file', 'b'), '');
  const path = join(top, 'a', 'b');
  const results = ['folder', 'file', 'gone', 'file/b', 'a'].map((target) => {
    symlinkSync(target, join(top, 'a'));
    try {
      return resolveFolder(path, 'cwd', join(top, 'data'), 'refused');
    } catch (error) {
      return String(error);
    } finally {
      unlinkSync(join(top, 'a'));
    }
  });
  expect(new Set(results)).toEqual(new Set([`CellaError: cwd: the path ${path} now contains a link.`]));
});
