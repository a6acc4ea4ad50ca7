/** Images that are no friends, and folders that hold more than they show: what an engine would allow, and Cella does not. */

import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectEngine, type Engine } from '../../../src/environments/container/engine.ts';
import { Administrator } from '../../support/docker/containers.ts';
import { imageWith } from '../../support/docker/images.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { openContainer } from '../../support/kernels/container.ts';
import { scratchFolder } from '../../support/kernels/session.ts';

const DEFAULT = 'cella-python:local';

/** Run by Python before the kernel's code, in a container with a connection folder. */
const attacking = (code: string) => `
import os, socket, struct, time
FOLDER = '/cella/connection'
def connect():
    host = socket.socket(socket.AF_UNIX)
    host.connect(FOLDER + '/host')
    return host
def frame(kind, payload=b'', number=0):
    return struct.pack('<IBI', len(payload), ord(kind), number) + payload
def join():
    host = connect()
    host.sendall(frame('j', open(FOLDER + '/token', 'rb').read()))
    return host
if os.path.exists(FOLDER + '/token'):
${code.trim().replaceAll(/^/gm, '    ')}
`;

let engine: Engine;

beforeAll(async () => {
  engine = await connectEngine(await sharedEngineWithImage());
}, 300_000);

async function hostile(name: string, code: string): Promise<string> {
  const [version] =
    /\d+\.\d+/.exec((await engine.docker.getImage(DEFAULT).inspect()).Config.Labels['cella.python'] ?? '') ?? [];
  return await imageWith(engine, DEFAULT, `cella-hostile-${name}`, {
    [`usr/lib/python${version}/sitecustomize.py`]: attacking(code),
  });
}

describe('a pid 1 that', () => {
  test.each([
    ['sends its token and nothing more', 'silent', 'kept = join()\ntime.sleep(1000)'],
    ['sends its token and ends', 'ending', 'kept = join()\nos._exit(0)'],
    ['breaks the protocol', 'garbage', 'kept = join()\nkept.sendall(b"x" * 100)\ntime.sleep(1000)'],
    [
      'speaks, and never says that it is ready',
      'other',
      'kept = join()\nkept.sendall(frame("g", b\'{"outOfMemory": false}\', 1))\ntime.sleep(1000)',
    ],
    [
      'says that it is ready, and brings no kernel',
      'idle',
      'kept = join()\nkept.sendall(frame("o", b\'{"pid": 1}\'))\ntime.sleep(1000)',
    ],
    [
      'connects again and again',
      'connecting',
      'kept = []\nwhile True:\n    try: kept = [*kept[-20:], connect()]\n    except OSError: pass',
    ],
  ])('%s is given up, and leaves nothing behind', async (_, name, code) => {
    const dataDir = await scratchFolder();
    const image = await hostile(name, code);
    const opened = openContainer({ dataDir, image, startTimeoutMs: 5000 });
    await expect(opened).rejects.toMatchObject({ code: expect.stringMatching(/^(CONTAINER|TEMPLATE)_FAILED$/) });
    expect(await (await Administrator.of(engine.address)).containersOf(dataDir)).toEqual([]);
  });
});

describe('an image that', () => {
  test('declares volumes gets none, so that code finds no unlimited space', async () => {
    const container = await engine.docker.createContainer({ Image: DEFAULT });
    await container.putArchive(openFolder('open'), { path: '/' });
    const changes = ['VOLUME /open', 'VOLUME /tmp'].join('\n');
    await container.commit({ repo: 'cella-hostile-volumes', tag: 'test', changes });
    await container.remove({ force: true });
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir, image: 'cella-hostile-volumes:test' });
    const written = await session.run('open("/tmp/mine", "w").write("x")\nopen("/open/mine", "w").write("x")');
    expect(written.error?.message).toContain("Read-only file system: '/open/mine'");
    const info = await (await (await Administrator.of(engine.address)).only(dataDir)).inspect();
    expect(info.Mounts.filter(({ Type }) => Type === 'volume')).toEqual([]);
  });

  test('prints endlessly does not fill the disk', async () => {
    const image = await hostile('talking', 'for _ in range(200): os.write(2, b"x" * 99999 + b"\\n")');
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir, image });
    expect(await session.run('1')).toMatchObject({ status: 'ok' });
    const { LogPath } = await (await (await Administrator.of(engine.address)).only(dataDir)).inspect();
    expect(statSync(LogPath).size).toBeLessThan(4_000_000);
  });
});

test('a read-only folder cannot be written if another is mounted in it', async () => {
  const folder = await scratchFolder();
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, 'inner'));
  expect(spawnSync('mount', ['-t', 'tmpfs', '-o', 'mode=1777,size=1m', 'none', join(folder, 'inner')]).status).toBe(0);
  onTestFinished(() => void spawnSync('umount', ['-l', join(folder, 'inner')]));
  await using session = await openContainer({ sandbox: { readable: [folder] } });
  const { status } = await session.run(`open(${JSON.stringify(join(folder, 'inner', 'mine'))}, 'w').write('x')`);
  expect(status).toBe('error');
  expect(existsSync(join(folder, 'inner', 'mine'))).toBe(false);
});

test('a folder that code has replaced by a link is not shown to the next container', async () => {
  const [outer, secret] = [await scratchFolder(), await scratchFolder()];
  const inner = join(outer, 'a', 'b');
  mkdirSync(inner, { recursive: true });
  for (const folder of [secret, outer, join(outer, 'a'), inner]) chmodSync(folder, 0o777);
  writeFileSync(join(secret, 'secret'), 'the secret');
  await using session = await openContainer({ cwd: inner, sandbox: { writable: [outer] } });
  const [above, away] = [join(outer, 'a'), join(outer, 'away')].map((path) => JSON.stringify(path));
  const swap = `import os; os.rename(${above}, ${away}); os.mkdir(${above}); os.symlink(${JSON.stringify(secret)}, ${JSON.stringify(inner)})`;
  expect(await session.run(swap)).toMatchObject({ status: 'ok' });
  await session.hibernate();
  const read = session.run(`open(${JSON.stringify(join(inner, 'secret'))}).read()`);
  await expect(read).rejects.toMatchObject({ code: 'FOLDER_REPLACED', message: expect.stringContaining(inner) });
});

/** A folder that everybody may write to. */
function openFolder(name: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'cella-open-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, name));
  chmodSync(join(folder, name), 0o777);
  return execFileSync('tar', ['--create', '--directory', folder, name]);
}
