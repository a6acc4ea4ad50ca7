/** The files of a session over the server, while its code changes what lies where. */

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
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
import { basename, join } from 'node:path';
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import { python } from '../support/kernels/attack-code.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { everywhere, type Row } from './row.ts';
import type { World } from './world.ts';

export const INSIDE =
  'The files API reaches only the workspace, even if code swaps folders and links during a request.';
const PLACE = 'The folder of a session stays the same folder: no link that code puts on its path is followed.';
const RIGHTS = 'File work of the host for a session has exactly the rights of the session’s code.';

/** What each route does to `path`, which lies in a folder that code swaps with a link to a folder of the host. */
export const routes = {
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
} satisfies Record<string, (path: string, world: World, session: string) => Promise<unknown>>;
type Route = keyof typeof routes;
const everyRoute = Object.keys(routes) as Route[];

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

function race(route: Route, path: string, quick = false): Row {
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
        while (!over) await Promise.race([act(path, world, mallory.session).catch(() => {}), swaps]);
      };
      await Promise.all([worker(), worker(), worker(), worker()]);
      expect(await swaps).toBeGreaterThan(0);
    },
  };
}

const races: Row[] = [
  ...everyRoute.map((route) => race(route, 'race/inner/secret', route === 'read' || route === 'write')),
  ...(['read', 'write', 'move away', 'move into', 'delete'] as const).map((route) => race(route, 'race/secret')),
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

const parents: Row[] = everyRoute.map((route) => ({
  name: `${route} after a parent of the session’s folder was replaced by a link`,
  promise: PLACE,
  on: everywhere,
  quick: true,
  attempt: async (world) => {
    const { session, outer } = await given(world);
    await world.mallory.value(swap(outer, world.folder), { session });
    await routes[route]('secret', world, session);
    await world.admin.call(`DELETE /v1/sessions/${session}`);
  },
}));

/** Two sessions: the folder of the second lies in that of the first. */
async function nested({ admin }: World): Promise<{ outer: string; one: string; two: string }> {
  const outer = await scratchFolder();
  const inner = join(outer, 'a', 'secret');
  mkdirSync(inner, { recursive: true });
  for (const folder of [outer, join(outer, 'a'), inner]) chmodSync(folder, 0o777);
  const shares = [{ user: 'mallory', right: 'use' }];
  return { outer, one: await admin.open({ cwd: outer, shares }), two: await admin.open({ cwd: inner, shares }) };
}

/** All that a program on a terminal of that session tells of the folder that it began in; it tries to write there, too. */
async function lookFromTerminal({ mallory, seen, url }: World, session: string): Promise<string> {
  const code = `
import os
print('it began with', os.listdir('.'), flush=True)
print(open('secret').read(), flush=True)
open('made', 'w')`;
  const argv = [String(await mallory.value('__import__("sys").executable')), '-c', code];
  const query = argv.map((word) => `argv=${encodeURIComponent(word)}`).join('&');
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${session}/terminal?${query}`, {
    headers: { authorization: `Bearer ${mallory.token}` },
  });
  let shown = '';
  socket.on('message', (data) => {
    shown += data;
  });
  socket.on('error', (error) => {
    shown += error.message;
  });
  await once(socket, 'close');
  seen.push(shown);
  return shown;
}

const terminals: Row[] = [
  {
    name: 'opens a terminal after a parent of the session’s folder was replaced by a link',
    promise: PLACE,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { session, outer } = await given(world);
      expect(await lookFromTerminal(world, session)).toContain("it began with ['own']");
      await world.mallory.value(swap(outer, world.folder), { session });
      expect(await lookFromTerminal(world, session)).toMatch(/it began with \['own'\]|"type":"error"/);
      await world.admin.call(`DELETE /v1/sessions/${session}`);
    },
  },
  {
    name: 'opens a terminal in a session whose folder is inside that of another session, which swaps it',
    promise: PLACE,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const { mallory } = world;
      const { outer, one, two } = await nested(world);
      await mallory.value("open('own', 'w')", { session: two });
      await mallory.value(swap(outer, world.folder), { session: one });
      expect(await lookFromTerminal(world, two)).toContain("it began with ['own']");
      expect((await mallory.call(`POST /v1/sessions/${two}/hibernate`)).status).toBe(204);
      expect(await lookFromTerminal(world, two)).toContain('"type":"error"');
      for (const session of [one, two]) await world.admin.call(`DELETE /v1/sessions/${session}`);
    },
  },
];

const wakes: Row[] = [
  {
    name: 'reads the admin token through the data folder',
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
    name: 'resumes in the folder that the link leads to',
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
    name: 'deletes a session whose folder was replaced by a link',
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
  {
    name: 'deletes a session that is full of links to the host',
    promise: PLACE,
    on: everywhere,
    attempt: async (world) => {
      const session = await world.mallory.open();
      const code = `
import os
for path in ('.', 'deep', 'deep/deeper'):
    os.makedirs(path, exist_ok=True)
    for name, to in ${python({ folder: world.secretDir, file: world.secretFile, above: world.folder })}.items():
        os.symlink(to, path + '/' + name)
os.chmod('deep', 0)`;
      await world.mallory.value(code, { session });
      expect((await world.mallory.call(`DELETE /v1/sessions/${session}`)).status).toBe(204);
    },
  },
  ...(['read', 'write', 'list', 'delete'] as const).map(
    (route): Row => ({
      name: `${route} in a session whose folder is inside that of another session, which swaps it`,
      promise: PLACE,
      on: everywhere,
      attempt: async (world) => {
        const { admin, mallory } = world;
        const { outer, one, two } = await nested(world);
        await mallory.value('1', { session: two });
        await mallory.value(swap(outer, world.folder), { session: one });
        await routes[route]('secret', world, two);
        for (const session of [one, two]) await admin.call(`DELETE /v1/sessions/${session}`);
      },
    }),
  ),
];

/** A file that only root may read, in a folder that a session was given: its code cannot, and so nobody can for it. */
const rights: Row[] = (['read', 'write', 'move away', 'move into', 'delete'] as const).map((route) => ({
  name: `${route} of a file that only root may access`,
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
    await routes[route]('closed/secret', world, session);
    // Where it lies in a folder of one’s own it may be moved and removed, as by the code, but never read or changed.
    if (route === 'read' || route === 'write') {
      await routes[route]('private', world, session);
      if (route === 'read') expect(facts()).toEqual(before);
    }
    expect(facts()[1]).toEqual(before[1]);
    await admin.call(`DELETE /v1/sessions/${session}`);
  },
}));

const mounts: Row[] = (['read', 'write', 'list', 'delete', 'delete all'] as const).map((route) => ({
  name: `${route} of a file on another file system that is mounted in the folder`,
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
      // Its rights alone keep nobody from this one.
      mkdirSync(join(at, 'open'));
      for (const name of ['secret', basename(world.namedFile)]) {
        writeFileSync(join(at, 'open', name), secrets["the host's file"] ?? '');
        chmodSync(join(at, 'open', name), 0o666);
      }
      chmodSync(join(at, 'open'), 0o777);
      const session = await admin.open({ cwd, shares: [{ user: 'mallory', right: 'use' }] });
      await mallory.run("__import__('os').listdir('mounted')", { session });
      const files = ['root', 'open'].map((folder) => join(at, folder, 'secret'));
      for (const folder of ['root', 'open']) await routes[route](`mounted/${folder}/secret`, world, session);
      for (const file of files) expect(readFileSync(file, 'utf8')).toBe(secrets["the host's file"]);
      await admin.call(`DELETE /v1/sessions/${session}`);
      expect(files.map((file) => existsSync(file))).toEqual([true, true]);
    } finally {
      execFileSync('umount', ['-l', at]);
    }
  },
}));

export const fileRows: readonly Row[] = [...races, ...parents, ...terminals, ...wakes, ...rights, ...mounts];
