/** The files of a session over the server, while its code changes what lies where. */

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { python } from '../support/attack.ts';
import { scratchFolder } from '../support/session.ts';
import { everywhere, type Row } from './row.ts';
import type { Reply, World } from './world.ts';

const INSIDE = 'The files API reaches what is in the workspace, and nothing else, whatever the code swaps meanwhile.';
const PLACE =
  'A folder that a session was given stays that folder: no link that code puts on the way to it is followed.';
const RIGHTS = 'What the host does with files for a session can do exactly what its code can do.';
const SHAPES = 'A file of any kind, name or depth holds up nobody but its session.';

/** What each route does to `path`, which lies in a folder that code swaps with a link to a folder of the host. */
const routes: Record<string, (path: string, world: World, session: string) => Promise<unknown>> = {
  list: (path, { mallory }, id) => mallory.call(`GET /v1/sessions/${id}/files?path=${encodeURIComponent(dirOf(path))}`),
  read: (path, { mallory }, id) =>
    mallory.call(`GET /v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}`),
  write: (path, { mallory }, id) =>
    mallory.call(`PUT /v1/sessions/${id}/files/content?path=${encodeURIComponent(path)}`, { body: 'forged' }),
  'write beside': (path, { mallory }, id) =>
    mallory.call(`PUT /v1/sessions/${id}/files/content?path=${encodeURIComponent(`${dirOf(path)}made`)}`, {
      body: 'x',
    }),
  'make a folder': (path, { mallory }, id) =>
    mallory.call(`POST /v1/sessions/${id}/files/folders`, { body: { path: `${dirOf(path)}folder` } }),
  'move away': async (path, { mallory }, id) => {
    const to = `stolen-${Math.random()}`;
    await mallory.call(`POST /v1/sessions/${id}/files/move`, { body: { from: path, to } });
    await mallory.call(`GET /v1/sessions/${id}/files/content?path=${to}`);
  },
  'move into': async (path, { mallory }, id) => {
    const from = `own-${Math.random()}`;
    await mallory.call(`PUT /v1/sessions/${id}/files/content?path=${from}`, { body: 'forged' });
    await mallory.call(`POST /v1/sessions/${id}/files/move`, { body: { from, to: path, replace: true } });
  },
  delete: (path, { mallory }, id) => mallory.call(`DELETE /v1/sessions/${id}/files?path=${encodeURIComponent(path)}`),
  'delete all': (path, { mallory }, id) =>
    mallory.call(`DELETE /v1/sessions/${id}/files?path=${encodeURIComponent(dirOf(path) || path)}&recursive=true`),
  watch: async (path, { mallory, namedFile, url }, id) => {
    const headers = { accept: 'application/x-ndjson', authorization: `Bearer ${mallory.token}` };
    const address = new URL(`/v1/sessions/${id}/files/watch?path=${encodeURIComponent(dirOf(path))}`, url);
    const response = await fetch(address, { headers, signal: AbortSignal.timeout(1000) }).catch(() => undefined);
    try {
      for await (const part of response?.body ?? []) {
        mallory.world.seen.push(Buffer.from(part).toString());
        // What happens there now is told to whoever watches it.
        utimesSync(namedFile, new Date(), new Date());
      }
    } catch {
      // It never ends by itself.
    }
  },
};

const dirOf = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1);

/** Swaps a folder with a link, and a file with a link, as fast as it can until it is told to stop. */
const swapping = (world: World) => `
import ctypes, os, shutil
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs('race/inner', exist_ok=True)
def fresh(path, make):
    if not os.path.lexists(path):
        make()
def decoy(path):
    def make():
        with open(path, 'w') as file:
            file.write('decoy')
    return make
fresh('race/link', lambda: os.symlink(${python(world.secretDir)}, 'race/link'))
fresh('race/leaf', lambda: os.symlink(${python(world.secretFile)}, 'race/leaf'))
fresh('race/secret', decoy('race/secret'))
def exchange(one, two):
    return libc.syscall(ctypes.c_long(316), -100, one, -100, two, 2)
import time
until = time.monotonic() + 1.2
rounds = 0
while time.monotonic() < until:
    for _ in range(50):
        exchange(b'race/inner', b'race/link')
        exchange(b'race/secret', b'race/leaf')
        rounds += 1
    for path in ('race/inner/secret',):
        try:
            if not os.path.islink('race/inner'):
                with open(path, 'w') as file:
                    file.write('decoy')
        except OSError:
            os.makedirs('race', exist_ok=True)
rounds`;

function race(route: string, path: string, quick = false): Row {
  const act = routes[route];
  return {
    name: `races ${route} of ${path}`,
    promise: INSIDE,
    on: everywhere,
    quick,
    attempt: async (world) => {
      const { mallory } = world;
      await mallory.value("import shutil; shutil.rmtree('race', ignore_errors=True)");
      let over = false;
      const swaps = mallory.value(swapping(world)).finally(() => {
        over = true;
      });
      const worker = async () => {
        // A file that shrinks while it is sent is cut off: that is the reader's own loss.
        while (!over) await Promise.race([act?.(path, world, mallory.session).catch(() => {}), swaps]);
      };
      await Promise.all([worker(), worker(), worker(), worker()]);
      expect(await swaps).toBeGreaterThan(0);
    },
  };
}

const races: Row[] = [
  ...Object.keys(routes).map((route) => race(route, 'race/inner/secret', route === 'read' || route === 'write')),
  ...['read', 'write', 'move away', 'move into', 'delete'].map((route) => race(route, 'race/secret')),
];

interface Given {
  readonly session: string;
  readonly outer: string;
}

/** A session of Mallory's in a folder that the operator gave: `outer/a/secret`, and all of `outer` may be written. */
async function given(world: World, name = 'secret'): Promise<Given> {
  const { admin, mallory } = world;
  const outer = await scratchFolder();
  const cwd = join(outer, 'a', name);
  mkdirSync(cwd, { recursive: true });
  for (const folder of [outer, join(outer, 'a'), cwd]) chmodSync(folder, 0o777);
  const session = await admin.open({
    cwd,
    sandbox: { writable: [outer] },
    shares: [{ user: 'mallory', right: 'use' }],
  });
  await mallory.value(`open('own', 'w').write('own')`, { session });
  return { session, outer };
}

/** Puts a link on the way: what was `outer/a` is now the folder above the secret one. */
const swap = (outer: string, to: string) => `
import os
os.rename(${python(join(outer, 'a'))}, ${python(join(outer, 'away'))})
os.symlink(${python(to)}, ${python(join(outer, 'a'))})`;

const parents: Row[] = Object.keys(routes).map((route) => ({
  name: `${route} where a folder above the session’s has become a link`,
  promise: PLACE,
  on: everywhere,
  quick: true,
  attempt: async (world) => {
    const { session, outer } = await given(world);
    await world.mallory.value(swap(outer, world.folder), { session });
    await routes[route]?.('secret', world, session);
    await world.admin.call(`DELETE /v1/sessions/${session}`);
  },
}));

const wakes: Row[] = [
  {
    name: 'reads the admin’s token by way of the data folder',
    promise: PLACE,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { session, outer } = await given(world, 'data');
      await world.mallory.value(swap(outer, world.folder), { session });
      for (const name of ['admin-token', 'master-key', 'cella.db'])
        await world.mallory.call(`GET /v1/sessions/${session}/files/content?path=${name}`);
      await world.admin.call(`DELETE /v1/sessions/${session}`);
    },
  },
  {
    name: 'wakes in the folder that the link leads to',
    promise: PLACE,
    on: everywhere,
    attempt: async (world) => {
      const { session, outer } = await given(world);
      await world.mallory.value(swap(outer, world.folder), { session });
      await world.mallory.call(`POST /v1/sessions/${session}/hibernate`);
      await world.mallory.run("[__import__('os').listdir('.'), open('secret').read()]", { session });
      await world.mallory.run("open('made', 'w').write('x')", { session });
      await world.admin.call(`DELETE /v1/sessions/${session}`);
    },
  },
  {
    name: 'deletes a session whose folder has become a link',
    promise: PLACE,
    on: everywhere,
    attempt: async (world) => {
      const session = await world.mallory.open();
      const cwd = String(await world.mallory.value('__import__("os").getcwd()', { session }));
      const code = `
import os
try:
    os.rename(${python(cwd)}, ${python(`${cwd}-away`)})
    os.symlink(${python(world.secretDir)}, ${python(cwd)})
except OSError as error:
    print(error)`;
      await world.mallory.run(code, { session });
      expect((await world.mallory.call(`DELETE /v1/sessions/${session}`)).status).toBe(204);
    },
  },
  ...['read', 'write', 'list', 'delete'].map(
    (route): Row => ({
      name: `${route} in a session whose folder lies in that of another, which swaps it`,
      promise: PLACE,
      on: everywhere,
      attempt: async (world) => {
        const { admin, mallory } = world;
        const outer = await scratchFolder();
        const inner = join(outer, 'a', 'secret');
        mkdirSync(inner, { recursive: true });
        for (const folder of [outer, join(outer, 'a'), inner]) chmodSync(folder, 0o777);
        const shares = [{ user: 'mallory', right: 'use' }];
        const one = await admin.open({ cwd: outer, shares });
        const two = await admin.open({ cwd: inner, shares });
        await mallory.value('1', { session: two });
        await mallory.value(swap(outer, world.folder), { session: one });
        await routes[route]?.('secret', world, two);
        for (const session of [one, two]) await admin.call(`DELETE /v1/sessions/${session}`);
      },
    }),
  ),
];

/** A file that only root may read, in a folder that a session was given: its code cannot, and so nobody can for it. */
const rights: Row[] = ['read', 'write', 'move away', 'move into', 'delete'].map((route) => ({
  name: `${route} of a file that root alone may touch`,
  promise: RIGHTS,
  on: ['subprocess', 'container'],
  quick: route === 'read' || route === 'write',
  attempt: async (world) => {
    const { admin, secrets } = world;
    const cwd = await scratchFolder();
    mkdirSync(join(cwd, 'closed'), { mode: 0o700 });
    for (const path of ['private', 'closed/secret']) {
      writeFileSync(join(cwd, path), secrets["the host's file"] ?? '', { mode: 0o600 });
    }
    // A container runs as a user of its own, whoever owns the folder.
    chmodSync(cwd, world.place === 'container' ? 0o777 : 0o755);
    chownSync(cwd, 1_234_567, 1_234_567);
    const session = await admin.open({ cwd, shares: [{ user: 'mallory', right: 'use' }] });
    const inside = await world.mallory.run("open('private').read()", { session });
    expect(inside.status).toBe('error');
    const facts = () =>
      ['private', 'closed/secret'].map((path) => {
        const { ino, uid, mode } = statSync(join(cwd, path));
        return [ino, uid, mode, readFileSync(join(cwd, path), 'utf8')];
      });
    const before = facts();
    await routes[route]?.('closed/secret', world, session);
    // Where it lies in a folder of one’s own it may be moved and removed, as by the code, but never read or changed.
    if (route === 'read' || route === 'write') {
      await routes[route]?.('private', world, session);
      if (route === 'read') expect(facts()).toEqual(before);
    }
    expect(facts()[1]).toEqual(before[1]);
    await admin.call(`DELETE /v1/sessions/${session}`);
  },
}));

const mounts: Row[] = ['read', 'write', 'list', 'delete', 'delete all'].map((route) => ({
  name: `${route} of what another file system that is mounted in the folder holds`,
  promise: RIGHTS,
  on: ['subprocess'],
  attempt: async (world) => {
    const { admin, mallory, secrets } = world;
    const cwd = await scratchFolder();
    const at = join(cwd, 'mounted');
    mkdirSync(at);
    for (const folder of [cwd, at]) {
      chmodSync(folder, 0o777);
      chownSync(folder, 1_234_567, 1_234_567);
    }
    execFileSync('mount', ['-t', 'tmpfs', 'none', at]);
    try {
      mkdirSync(join(at, 'root'), { mode: 0o700 });
      writeFileSync(join(at, 'root', 'secret'), secrets["the host's file"] ?? '', { mode: 0o600 });
      const session = await admin.open({ cwd, shares: [{ user: 'mallory', right: 'use' }] });
      await mallory.run("__import__('os').listdir('mounted')", { session });
      await routes[route]?.('mounted/root/secret', world, session);
      expect(readFileSync(join(at, 'root', 'secret'), 'utf8')).toBe(secrets["the host's file"]);
      await admin.call(`DELETE /v1/sessions/${session}`);
      expect(existsSync(join(at, 'root', 'secret'))).toBe(true);
    } finally {
      execFileSync('umount', ['-l', at]);
    }
  },
}));

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
]; // prettier-ignore

const names: Row[] = [
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
        for (const route of ['list', 'write', 'make a folder', 'move into', 'move away'])
          await routes[route]?.(path, world, mallory.session);
        if (!['.', '', './'].includes(path)) await routes.delete?.(path, world, mallory.session);
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
                 'one': '/proc/1/root' + target, 'loop': 'loop', 'dots': 'in/' + up + target[1:]}.items():
    os.symlink(to, 'links/' + name)
sorted(os.listdir('links'))`;
      for (const name of (await mallory.value(code)) as string[]) {
        for (const path of [`links/${name}`, `links/${name}/secret`]) {
          const { status } = await mallory.call(`GET ~/files/content?path=${encodeURIComponent(path)}`);
          expect.soft([path, status >= 400]).toEqual([path, true]);
          await routes['write beside']?.(`links/${name}/`, world, mallory.session);
          await routes['move away']?.(path, world, mallory.session);
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
    name: 'has names of 255 bytes, of no text, and with control characters',
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
      await routes.watch?.('wide/', world, mallory.session);
      await mallory.call('DELETE ~/files?path=much&recursive=true');
      await mallory.call('DELETE ~/files?path=wide&recursive=true');
    },
  },
  {
    name: 'reads a file of a petabyte that holds nothing',
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
    name: 'keeps files open that have no name any more, past its quota',
    promise: 'What a user keeps on the disk counts against its quota.',
    // docs/threat-model.md: only a root host knows whose files without a name are.
    on: ['subprocess'],
    attempt: async (world) => {
      const tenant = await world.user(`hoarder${Math.random().toString(36).slice(2)}`);
      tenant.session = await tenant.open();
      const code = `
import os
held = open('unnamed', 'wb')
os.remove('unnamed')
for _ in range(20):
    held.write(bytes(1 << 20))
held.flush()`;
      await tenant.value(code);
      // What is used is measured when a quota is set, and once a minute.
      await world.ask(`PATCH /v1/users/${tenant.name}`, { body: { quotas: { storageBytes: 3_000_000 } } });
      const reply: Reply = await tenant.call('POST ~/execute', { body: { code: '1' } });
      expect(reply.json.error?.code).toBe('QUOTA_EXCEEDED');
    },
  },
  {
    name: 'leaves 9,000 folders in one another behind, and the server starts again',
    promise: 'No leftover of a tenant keeps the server from starting.',
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

export const fileRows: readonly Row[] = [...races, ...parents, ...wakes, ...rights, ...mounts, ...names];
