/** Files of every name, kind, depth and number, and links to everywhere, that code leaves for the server to find. */

import { expect } from 'vitest';
import { python } from '../support/kernels/attack-code.ts';
import { INSIDE, routes } from './files.ts';
import { everywhere, type Row } from './row.ts';
import type { Reply } from './world.ts';

const SHAPES = 'A file of any kind, name or depth blocks only its own session.';

const ODD = [
  '..',
  '../..',
  '/',
  '/etc/passwd',
  '//etc/passwd',
  './../../x',
  'a/../../../etc/passwd',
  '..\\..\\x',
  '%2e%2e/x',
  '....//x',
  'x\0y',
  '\u2025/x',
  '~/x',
  'file:///etc/passwd',
  '/proc/self/environ',
  '../workspace-evil/x',
  '.',
  '',
];

export const fileShapeRows: readonly Row[] = [
  {
    name: 'names paths that lead out, in 18 spellings, to every route',
    promise: INSIDE,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { mallory } = world;
      for (const path of ODD) {
        const read = await mallory.call(`GET ~/files/content?path=${encodeURIComponent(path)}`);
        expect.soft([path, read.status >= 400 && read.status < 500]).toEqual([path, true]);
        for (const route of ['list', 'write', 'make a folder', 'move into', 'move away'] as const)
          await routes[route](path, world, mallory.session);
        if (!['.', '', './'].includes(path)) await routes.delete(path, world, mallory.session);
      }
    },
  },
  {
    name: 'follows links that lead out, in every way that a link can be written',
    promise: INSIDE,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { mallory, secretFile, secretDir } = world;
      const code = `
import os, shutil
shutil.rmtree('links', ignore_errors=True)
os.makedirs('links/in')
target, folder = ${python([secretFile, secretDir])}
up = '../' * 50
for name, to in {'plain': target, 'up': up + target[1:], 'folder': folder, 'chain': 'plain', 'proc': '/proc/self/root' + target, 'cwd': '/proc/self/cwd', 'fd': '/proc/self/fd/0',
                 'one': '/proc/1/root' + target, 'loop': 'loop', 'dots': 'in/' + up + target[1:], 'open': '/etc/passwd'}.items():
    os.symlink(to, 'links/' + name)
sorted(os.listdir('links'))`;
      for (const name of (await mallory.value(code)) as string[]) {
        for (const path of [`links/${name}`, `links/${name}/secret`]) {
          const { status } = await mallory.call(`GET ~/files/content?path=${encodeURIComponent(path)}`);
          expect.soft([path, status >= 400]).toEqual([path, true]);
          // The folder may be read by everybody: no right of a user keeps anybody out of it.
          await routes.list(`links/${name}/`, world, mallory.session);
          await routes['write beside'](`links/${name}/`, world, mallory.session);
          await routes['move away'](path, world, mallory.session);
        }
      }
    },
  },
  {
    name: 'reads and writes pipes, sockets and folders as if they were files',
    promise: SHAPES,
    on: everywhere,
    quick: true,
    attempt: async ({ mallory }) => {
      const code = `
import os, socket
for path in ('pipe', 'socket'):
    if os.path.lexists(path):
        os.remove(path)
os.mkfifo('pipe')
listening = socket.socket(socket.AF_UNIX)
listening.bind('socket')
os.makedirs('folder', exist_ok=True)`;
      await mallory.value(code);
      for (const path of ['pipe', 'socket', 'folder']) {
        const soon = () => AbortSignal.timeout(20_000);
        const read = await mallory.call(`GET ~/files/content?path=${path}`, { signal: soon() });
        expect.soft([path, read.status]).toEqual([path, 400]);
        await mallory.call(`PUT ~/files/content?path=${path}`, { body: 'x', signal: soon() });
        await mallory.call(`GET ~/files/watch?path=${path}`, { signal: AbortSignal.timeout(500) }).catch(() => {}); // a watch does not end
      }
    },
  },
  {
    name: 'uses names of 255 bytes, that are not text, and with control characters',
    promise: SHAPES,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const code = String.raw`
import os, shutil
shutil.rmtree('odd', ignore_errors=True)
os.makedirs(b'odd')
for name in (b'x' * 255, b'\xff\xfe', b'\x01\x1b[31m', b'a\nb', b'\xed\xa0\x80', '‮gnp.exe'.encode(), b'%2e%2e', b' ', b'-rf', b'\x7f'):
    os.close(os.open(b'odd/' + name, os.O_CREAT))
len(os.listdir(b'odd'))`;
      expect(await mallory.value(code)).toBe(10);
      const { status, json } = await mallory.call('GET ~/files?path=odd');
      expect([status, json.files.length <= 10]).toEqual([200, true]);
      expect((await mallory.call('DELETE ~/files?path=odd&recursive=true')).status).toBe(204);
      expect(await mallory.value("__import__('os').path.exists('odd')")).toBe(false);
    },
  },
  {
    name: 'lists a folder of 50,000 files, and watches 5,000 folders',
    promise: SHAPES,
    on: everywhere,
    attempt: async (world) => {
      const { mallory } = world;
      const code = `
import os
os.makedirs('much', exist_ok=True)
for number in range(50_000):
    os.close(os.open('much/%d' % number, os.O_CREAT))
for number in range(5000):
    os.makedirs('wide/%d' % number, exist_ok=True)`;
      await mallory.run(code, { timeoutMs: 60_000 });
      await mallory.call('GET ~/files?path=much');
      await routes.watch('wide/', world, mallory.session);
      await mallory.call('DELETE ~/files?path=much&recursive=true');
      await mallory.call('DELETE ~/files?path=wide&recursive=true');
    },
  },
  {
    name: 'reads a sparse file of a petabyte',
    promise: SHAPES,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const size = await mallory.value(`
size = 1 << 30
with open('sparse', 'wb') as file:
    try:
        file.truncate(1 << 50)
        size = 1 << 50
    except OSError:
        file.truncate(size)
size`);
      const from = `GET ~/files/content?path=sparse&offset=${Number(size) - 1000}`;
      expect((await mallory.call(from)).text.length).toBe(1000);
      const abort = AbortSignal.timeout(1000);
      await mallory.call('GET ~/files/content?path=sparse', { signal: abort }).catch(() => {}); // far too much to wait for
      await mallory.value("__import__('os').remove('sparse')");
    },
  },
  {
    name: 'keeps deleted files open, over its quota',
    promise: 'Everything that a user stores on the disk counts towards the quota.',
    // docs/threat-model.md: only a root host knows whose files without a name are.
    on: ['subprocess'],
    attempt: async (world) => {
      const user = await world.user(`hoarder${Math.random().toString(36).slice(2)}`);
      user.session = await user.open();
      const code = `
import os
held = open('unnamed', 'wb')
os.remove('unnamed')
for _ in range(20):
    held.write(bytes(1 << 20))
held.flush()`;
      await user.value(code);
      // What is used is measured when a quota is set, and once a minute.
      await world.ask(`PATCH /v1/users/${user.name}`, { body: { quotas: { storageBytes: 3_000_000 } } });
      const reply: Reply = await user.call('POST ~/execute', { body: { code: '1' } });
      expect(reply.json.error?.code).toBe('QUOTA_EXCEEDED');
    },
  },
  {
    name: 'leaves 9,000 nested folders behind, and the server restarts',
    promise: 'Nothing that a user leaves behind prevents the server from starting.',
    on: everywhere,
    attempt: async (world) => {
      const { mallory } = world;
      const session = await mallory.open();
      const code = `
import os
base = os.open('.', os.O_RDONLY)
# In pieces that are put into one another: each step costs what lies above it.
for number in range(9, 0, -1):
    os.mkdir('piece%d' % number)
    os.chdir('piece%d' % number)
    for _ in range(999):
        os.mkdir('d')
        os.chdir('d')
    if number < 9:
        os.rename('piece%d' % (number + 1), 'd', src_dir_fd=base, dst_dir_fd=os.open('.', os.O_RDONLY))
    os.fchdir(base)
sorted(os.listdir('.'))`;
      await mallory.value(code, { session, timeoutMs: 60_000 });
      const { status } = await mallory.call(`DELETE /v1/sessions/${session}`);
      await world.restart();
      expect(status).toBe(204);
    },
  },
];
