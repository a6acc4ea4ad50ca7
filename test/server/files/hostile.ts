/** Attacks of a session's code on what the server does with its files, wherever the code runs. */

import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { scratchFolder } from '../../support/kernels/session.ts';
import type { TestServer } from '../../support/servers/server.ts';

export const root = process.getuid?.() === 0;
export const CANARY = 'the canary';

/** Swaps two names, as fast as it can, for as long as the file `flag` is there. */
export const SWAPPING = `
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2

def swap(one, other):
    return libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE)

def swapping(pairs, flag):
    def go():
        while os.path.exists(flag):
            for one, other in pairs:
                swap(one, other)
    open(flag, "w").close()
    threading.Thread(target=go, daemon=True).start()
`;

/** Links of 4 KB, 30 in a row, which the system follows: by dots, by folders deep below, and up and down. */
export const LONG_LINKS = `
import os
here = os.getcwd()
os.mkdir("d")
os.chdir("d")
for _ in range(1900):
    os.mkdir("d")
    os.chdir("d")
os.chdir(here)
os.mkdir("x")
open("x/file", "w").close()
def chain(name, first, last, step, links=30):
    for number in range(links):
        head = first if number == 0 else ""
        head += last if number == links - 1 else f"{name}{number + 1}"
        os.symlink(head + step * ((4090 - len(head)) // len(step)), f"{name}{number}")
chain("dots", here + "/", "x", "/.")
chain("deep", here + "/", "d" + "/d" * 1900, "/../d")
chain("up", "", "x", "/../x")
`;

/** A folder that anybody may come to, for one user of the machine, with others in it. */
export async function folderFor(uid: number, ...inner: string[]): Promise<string> {
  const top = await scratchFolder();
  chmodSync(top, 0o755);
  const folder = join(top, 'project');
  for (const at of [folder, ...inner.map((name) => join(folder, name))]) {
    mkdirSync(at);
    chmodSync(at, 0o777);
    if (root) chownSync(at, uid, uid);
  }
  return folder;
}

const path = (value: string) => encodeURIComponent(value);

/** The files API of one session. */
export function filesOf(server: TestServer, id: string) {
  const files = `/v1/sessions/${id}/files`;
  return {
    read: (file: string) => server.call(`GET ${files}/content?path=${path(file)}`),
    list: (folder: string) => server.call(`GET ${files}?path=${path(folder)}`),
    write: (file: string, text: string) => server.call(`PUT ${files}/content?path=${path(file)}`, { body: text }),
    move: (from: string, to: string) => server.call(`POST ${files}/move`, { body: { from, to, replace: true } }),
    remove: (file: string) => server.call(`DELETE ${files}?path=${path(file)}&recursive=true`),
    make: (folder: string) => server.call(`POST ${files}/folders`, { body: { path: folder } }),
  };
}

/** A folder outside with a canary, as the attacks see it. */
async function outside(): Promise<{ folder: string; check: () => void }> {
  const folder = await scratchFolder();
  mkdirSync(join(folder, 'b'));
  for (const at of [folder, join(folder, 'b')]) {
    writeFileSync(join(at, 'canary'), CANARY, { mode: 0o600 });
    writeFileSync(join(at, 'other'), CANARY, { mode: 0o600 });
  }
  const check = () => {
    expect(readdirSync(folder).sort()).toEqual(['b', 'canary', 'other']);
    expect(readdirSync(join(folder, 'b')).sort()).toEqual(['canary', 'other']);
    for (const at of ['canary', 'other', 'b/canary', 'b/other']) {
      expect(readFileSync(join(folder, at), 'utf8')).toBe(CANARY);
    }
  };
  return { folder, check };
}

/** A folder outside that anybody may read and change: what is reached of it by mistake is seen. */
async function openCanaries(): Promise<{ folder: string; check: () => void }> {
  const folder = await folderFor(1000, 'b');
  const canaries = ['canary', 'b/canary'].map((name) => join(folder, name));
  for (const at of canaries) {
    writeFileSync(at, CANARY);
    chmodSync(at, 0o666);
  }
  const check = () => {
    expect([readdirSync(folder).sort(), readdirSync(join(folder, 'b'))]).toEqual([['b', 'canary'], ['canary']]);
    for (const at of canaries) expect(readFileSync(at, 'utf8')).toBe(CANARY);
  };
  return { folder, check };
}

/** All that a program on a terminal of that session tells of the folder that it began in; it writes there, too. */
async function lookFromTerminal(server: TestServer, session: string): Promise<string> {
  const code = `
import os
print('it began with', sorted(os.listdir('.')), flush=True)
open('made by %d' % os.getuid(), 'w')
print(open('canary').read(), flush=True)`;
  const argv = ['python3', '-c', code].map((word) => `argv=${encodeURIComponent(word)}`).join('&');
  const address = `${server.url.replace('http', 'ws')}/v1/sessions/${session}/terminal?${argv}`;
  const socket = new WebSocket(address, { headers: { authorization: `Bearer ${server.token}` } });
  let shown = '';
  socket.on('message', (data) => {
    shown += data;
  });
  socket.on('error', (error) => {
    shown += error.message;
  });
  await once(socket, 'close');
  return shown;
}

/** Tries everything that could reach the canary by these names. */
async function attack(server: TestServer, id: string, below = ''): Promise<string[]> {
  const files = filesOf(server, id);
  const seen = [
    await files.read(`${below}canary`),
    await files.list(below),
    await files.write(`${below}canary`, 'written'),
    await files.write(`${below}new/file`, 'created'),
    await files.make(`${below}made`),
    await files.move(`${below}other`, `${below}moved`),
    await files.remove(`${below}canary`),
  ];
  return seen.map(({ text }) => text);
}

/** `settings` are those of every session. */
export function hostileFiles(start: () => Promise<TestServer>, settings: Record<string, unknown> = {}): void {
  it('cannot be reached through a link in place of a parent folder, while a kernel is live', async () => {
    const server = await start();
    const { folder, check } = await outside();
    const outer = await folderFor(1000, 'a', 'a/b');
    const { id } = await server.session({ ...settings, cwd: join(outer, 'a', 'b'), sandbox: { writable: [outer] } });
    const [above, away] = [join(outer, 'a'), join(outer, 'away')].map((at) => JSON.stringify(at));
    const swap = `import os; os.rename(${above}, ${away}); os.symlink(${JSON.stringify(folder)}, ${above})`;
    expect(await server.run(id, swap)).toMatchObject({ status: 'ok' });
    for (const text of await attack(server, id)) expect.soft(text).not.toContain(CANARY);
    check();
    expect(await filesOf(server, id).list('')).toMatchObject({
      status: 409,
      json: { error: { code: 'FOLDER_REPLACED' } },
    });
  });

  it('cannot be reached through a link that the code of another session puts above them', async () => {
    const server = await start();
    const { folder, check } = await outside();
    const outer = await folderFor(1000, 'a', 'a/b');
    const inner = await server.session({ ...settings, agentKey: 'inner', cwd: join(outer, 'a', 'b') });
    expect(await server.run(inner.id, '1')).toMatchObject({ status: 'ok' });
    const around = await server.session({ ...settings, agentKey: 'around', cwd: outer });
    const swap = `import os; os.rename("a", "away"); os.symlink(${JSON.stringify(folder)}, "a")`;
    expect(await server.run(around.id, swap)).toMatchObject({ status: 'ok' });
    for (const text of await attack(server, inner.id)) expect.soft(text).not.toContain(CANARY);
    check();
    // A folder of one's own in its place is another one too.
    expect(await server.run(around.id, 'os.unlink("a"); os.makedirs("a/b")')).toMatchObject({ status: 'ok' });
    expect((await filesOf(server, inner.id).write('x', 'x')).json).toMatchObject({
      error: { code: 'FOLDER_REPLACED' },
    });
    // What is there again is used again.
    expect(await server.run(around.id, 'os.rmdir("a/b"); os.rmdir("a"); os.rename("away", "a")')).toMatchObject({
      status: 'ok',
    });
    expect((await filesOf(server, inner.id).write('x', 'x')).status).toBe(200);
  });

  it('outside cannot be reached while the code swaps folders and links', async () => {
    const server = await start();
    const { folder, check } = await outside();
    const outer = await folderFor(1000);
    const own = await server.session({ ...settings, agentKey: 'own' });
    const named = await server.session({ ...settings, agentKey: 'named', cwd: outer });
    for (const { id } of [own, named]) {
      const begin = `${SWAPPING}
os.makedirs("d/b/made", exist_ok=True)
for at in ("d", "d/b"):
    for name in ("canary", "other"):
        open(at + "/" + name, "w").write("mine")
os.symlink(${JSON.stringify(folder)}, "l")
os.makedirs("f")
os.symlink(${JSON.stringify(join(folder, 'canary'))}, "f/l")
open("f/canary", "w").write("mine")
swapping([("d", "l"), ("f/canary", "f/l")], ".swap")`;
      expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
      const over = new AbortController();
      const watched = server.fetch(`GET /v1/sessions/${id}/files/watch?path=`, { signal: over.signal });
      const answers: string[] = [];
      for (let round = 0; round < 12; round++) {
        for (const below of ['d/', 'l/', 'd/b/', 'f/']) answers.push(...(await attack(server, id, below)));
      }
      expect(answers.filter((text) => text.includes(CANARY))).toEqual([]);
      check();
      expect(await server.run(id, 'os.unlink(".swap")')).toMatchObject({ status: 'ok' });
      over.abort();
      await watched.then((answer) => answer.body?.cancel()).catch(() => {}); // it was cut
    }
  });

  it('cannot be reached by terminals that start while the code of another session swaps parent folders', async () => {
    const server = await start();
    const [outer, elsewhere] = [await folderFor(1000, 'a', 'a/b'), await openCanaries()];
    const inner = { ...settings, cwd: join(outer, 'a', 'b') };
    const sessions = await Promise.all([0, 1, 2, 3].map((n) => server.session({ ...inner, agentKey: `inner ${n}` })));
    writeFileSync(join(inner.cwd, 'mine'), '');
    for (const { id } of sessions) expect(await server.run(id, '1')).toMatchObject({ status: 'ok' });
    const around = await server.session({ ...settings, agentKey: 'around', cwd: outer });
    const begin = `${SWAPPING}
os.symlink(${JSON.stringify(elsewhere.folder)}, "l")
swapping([("a", "l")], ".swap")`;
    expect(await server.run(around.id, begin)).toMatchObject({ status: 'ok' });
    const shown: string[] = [];
    const look = async (id: string) => {
      for (let round = 0; round < 5; round++) {
        // One that no kernel holds open is opened anew by the terminal.
        if (round > 0) await server.call(`POST /v1/sessions/${id}/hibernate`);
        shown.push(await lookFromTerminal(server, id));
      }
    };
    await Promise.all(sessions.map(({ id }) => look(id)));
    expect(shown.filter((text) => !/began with \[('made by \d+', )*'mine'\]|"type":"error"/.test(text))).toEqual([]);
    expect(shown.filter((text) => text.includes(CANARY))).toEqual([]);
    expect(shown.join('')).toContain('began with');
    elsewhere.check();
    expect(await server.run(around.id, 'os.unlink(".swap")')).toMatchObject({ status: 'ok' });
  });

  it('outside are not deleted, one by one or with their session, while the code swaps folders and links', async () => {
    const server = await start();
    const elsewhere = await openCanaries();
    // A removal tries to remove a name as an empty folder, and then opens it to empty it. If a link takes the name in between, only
    // O_NOFOLLOW (folder_ops.py as root, open-directory.ts as another user) keeps the removal inside: without it, the canary is
    // gone after about 50 removals that find something. One pair of names is swapped and refilled all the time.
    const begin = `${SWAPPING}
ELSEWHERE = ${JSON.stringify(elsewhere.folder)}
def fill(folder):
    for work in (
        lambda: os.makedirs(folder + "/d/b"),
        lambda: open(folder + "/d/file", "w").close(),
        lambda: os.symlink(ELSEWHERE, folder + "/l"),
    ):
        try:
            work()
        except OSError:
            pass # it is there, or being removed
def swapping_and_filling(folder, flag):
    def go():
        while os.path.exists(flag):
            for _ in range(50):
                if swap(folder + "/d", folder + "/l") != 0:
                    fill(folder)
    open(flag, "w").close()
    threading.Thread(target=go, daemon=True).start()
swapping_and_filling("t", ".swap")`;
    const { id } = await server.session({ ...settings, agentKey: 'deleted' });
    expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
    for (let found = 0; found < 250; ) {
      // One level below the named folder, and the named folder itself.
      const { status } = await filesOf(server, id).remove(found % 2 === 0 ? 't' : 't/d');
      expect([200, 204, 400, 404, 409]).toContain(status);
      if (status !== 404) found++;
    }
    elsewhere.check();
    // Its fork works in the same folder: that one goes with the last of both, whose code still swaps. The folder is removed only
    // when no code runs any more, so what this shows is that no code goes on.
    const end = 'os.unlink(".swap")\nwhile threading.active_count() > 1: pass';
    expect(await server.run(id, end)).toMatchObject({ status: 'ok' });
    const { json: fork } = await server.call(`POST /v1/sessions/${id}/fork`, { body: { agentKey: 'fork' } });
    for (const one of [id, String(fork.id)]) expect(await server.run(one, begin)).toMatchObject({ status: 'ok' });
    const gone = async (one: unknown): Promise<number> => {
      const { status } = await server.call(`DELETE /v1/sessions/${one}`);
      return status === 409 ? await gone(one) : status;
    };
    expect(await Promise.all([gone(id), gone(fork.id)])).toEqual([204, 204]);
    elsewhere.check();
    const left = () => readdirSync(join(server.facts.dataDir, 'agents')).filter((name) => !name.startsWith('.'));
    await expect.poll(left).toEqual([]);
    elsewhere.check();
  });

  it('are not overwritten by a move without `replace`, whenever the code creates them', async () => {
    const server = await start();
    const { id } = await server.session(settings);
    // Whoever has made a file and not removed it finds it with a name.
    const begin = `
import os, threading
lost, made = 0, 0
def go():
    global lost, made
    while os.path.exists(".making"):
        try:
            fd = os.open("taken", os.O_CREAT | os.O_EXCL)
        except OSError:
            continue
        made += 1
        for _ in range(50):
            os.fstat(fd)
        if os.fstat(fd).st_nlink == 0:
            lost += 1
        else:
            os.unlink("taken")
        os.close(fd)
open(".making", "w").close()
thread = threading.Thread(target=go, daemon=True)
thread.start()`;
    expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
    const files = filesOf(server, id);
    const statuses = new Set<number>();
    const moving = async (from: string) => {
      await files.write(from, 'x');
      // Until one came before the code, and one after it.
      for (let round = 0; round < 150 || statuses.size < 2; round++) {
        const body = { from, to: 'taken' };
        const { status } = await server.call(`POST /v1/sessions/${id}/files/move`, { body });
        statuses.add(status);
        if (status !== 200) continue;
        await files.remove('taken');
        await files.write(from, 'x');
      }
    };
    await Promise.all(['a', 'b', 'c', 'd'].map(moving));
    const end = 'os.unlink(".making"); thread.join(); print(lost, made > 0)';
    expect(await server.run(id, end)).toMatchObject({ status: 'ok', stdout: '0 True\n' });
    // Some came before the code, and some after it.
    expect(statuses).toEqual(new Set([200, 409]));
  });

  it('can be reached through links that stay inside, as by the code', async () => {
    const server = await start();
    const folder = await folderFor(1000);
    const own = await server.session({ ...settings, agentKey: 'own' });
    const named = await server.session({ ...settings, agentKey: 'named', cwd: folder });
    for (const { id } of [own, named]) {
      const begin = `
import os
os.makedirs("a/b")
open("a/b/file", "w").write("inside")
os.symlink("a/b", "relative")
os.symlink(os.path.abspath("a"), "absolute")
os.symlink("../../relative/file", "a/b/link")`;
      expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
      const files = filesOf(server, id);
      for (const file of ['relative/file', 'absolute/b/file', 'a/b/link', 'absolute/b/link']) {
        expect.soft((await files.read(file)).text).toBe('inside');
      }
      expect((await files.write('absolute/new', 'from the client')).status).toBe(200);
      expect(await server.run(id, 'open("a/new").read()')).toMatchObject({ status: 'ok' });
    }
  });

  it('are refused in words where the code has closed its own folders, and go with the session', async () => {
    const server = await start();
    const { id } = await server.session({ ...settings, agentKey: 'closed' });
    // A root host keeps code from closing the folder above the workspace.
    const close = `
import os
open("file", "w").close()
for folder in ("/agent/workspace", "/agent/home", "/agent"):
    try:
        os.chmod(folder, 0)
    except OSError:
        pass`;
    expect(await server.run(id, close)).toMatchObject({ status: 'ok' });
    const files = filesOf(server, id);
    const attempts = async () => [
      await files.read('file'),
      await files.list(''),
      await files.write('file', 'x'),
      await files.make('new/folder'),
      await files.move('file', 'moved'),
      await files.remove('file'),
      await server.call(`GET /v1/sessions/${id}/files/watch?path=`),
    ];
    const told = (await attempts()).map(({ status }) => status);
    expect((await server.call(`POST /v1/sessions/${id}/hibernate`)).status).toBe(204);
    told.push(...(await attempts()).map(({ status }) => status));
    expect(new Set(told)).toEqual(new Set([400]));
    expect(await server.run(id, '1 + 1')).toMatchObject({ error: { code: 'WORKSPACE_NOT_WRITABLE' } });
    expect((await server.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
    const left = () => readdirSync(join(server.facts.dataDir, 'agents')).filter((name) => name.includes('closed'));
    expect(left()).toEqual([]);
  });

  it('outside do not become artifacts, and are not written by them, whatever path or link the code names', async () => {
    const server = await start();
    const { folder, check } = await outside();
    const cwd = await folderFor(1000);
    for (const session of [{ agentKey: 'own' }, { agentKey: 'named', cwd }]) {
      const { id } = await server.session({ ...settings, ...session });
      const attempts = `
import os, pathlib
canary = ${JSON.stringify(join(folder, 'canary'))}
os.symlink(canary, "link")
os.symlink(os.path.dirname(canary), "folder")
open("mine", "w").write("mine")
artifacts.save("mine", pathlib.Path("mine"))
done = []
for path in (canary, "link", "folder/canary"):
    for work in (lambda: artifacts.save("stolen", pathlib.Path(path)), lambda: artifacts.load("mine", path=path)):
        try:
            done.append((path, work()))
        except OSError:
            pass
(done, [info["name"] for info in artifacts.list()])`;
      expect(await server.run(id, attempts)).toMatchObject({ status: 'ok', value: [[], ['mine']] });
      await server.call(`DELETE /v1/artifacts/mine`);
    }
    check();
  });

  it('of the host do not show in errors of links, whether they exist or not', async () => {
    const server = await start();
    const { folder } = await outside();
    mkdirSync(join(folder, 'closed'), { mode: 0o000 });
    const { id } = await server.session(settings);
    const targets = ['', '/canary', '/canary/x', '/b', '/b/canary', '/gone', '/gone/x', '/closed', '/closed/x'];
    const begin = `
import os
for number, target in enumerate(${JSON.stringify(targets)}):
    os.symlink(${JSON.stringify(folder)} + target, "absolute%d" % number)
    os.symlink("../" * 40 + ${JSON.stringify(folder.slice(1))} + target, "relative%d" % number)`;
    expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
    const files = filesOf(server, id);
    const routes = {
      read: (link: string) => files.read(link),
      'read below': (link: string) => files.read(`${link}/canary`),
      list: (link: string) => files.list(link),
      'list below': (link: string) => files.list(`${link}/b`),
      'write below': (link: string) => files.write(`${link}/new/file`, 'x'),
      make: (link: string) => files.make(link),
      'make below': (link: string) => files.make(`${link}/new`),
      'move below': (link: string) => files.move(`${link}/canary`, 'stolen'),
      'remove below': (link: string) => files.remove(`${link}/canary`),
    };
    for (const [route, work] of Object.entries(routes)) {
      const told = new Set<string>();
      for (const number of targets.keys()) {
        for (const link of [`absolute${number}`, `relative${number}`]) {
          const { status, json } = await work(link);
          const { message } = json.error as { message: string };
          told.add(`${status} ${message.replace(link, 'LINK')}`);
        }
      }
      expect.soft([route, [...told]]).toEqual([route, [expect.stringMatching(/^400 .* leads out of its folder/)]]);
    }
  });

  it('cannot be reached through links with too many names, and nobody waits for that', async () => {
    const server = await start();
    const { id } = await server.session(settings);
    expect(await server.run(id, LONG_LINKS)).toMatchObject({ status: 'ok' });
    const files = filesOf(server, id);
    for (const link of ['dots0', 'deep0']) {
      const begun = performance.now();
      for (const answer of [
        await files.list(link),
        await files.read(`${link}/file`),
        await files.write(`${link}/new/file`, 'x'),
        await files.make(`${link}/new/folder`),
      ]) {
        expect.soft(answer).toMatchObject({ status: 400, json: { error: { code: 'INVALID_REQUEST' } } });
      }
      expect.soft(performance.now() - begun).toBeLessThan(5000);
    }
  });

  it('are found or refused with an error while the code renames constantly', async () => {
    const server = await start();
    const { id } = await server.session(settings);
    const begin = `${LONG_LINKS}
os.symlink("x" + "/../x" * 20, "short")
${SWAPPING}
os.mkdir("one")
os.mkdir("other")
swapping([("one", "other")], ".swap")`;
    expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
    const files = filesOf(server, id);
    const statuses = new Set<number>();
    for (let round = 0; round < 10; round++) {
      expect.soft((await files.list('short')).status).toBe(200);
      for (const { status } of [await files.list('up0'), await files.write('up0/new', 'x')]) statuses.add(status);
    }
    for (const status of statuses) expect([200, 400, 429]).toContain(status);
    expect(await server.run(id, 'os.unlink(".swap")')).toMatchObject({ status: 'ok' });
  });

  it('are listed by name only if a folder is readable but not searchable', async () => {
    const server = await start();
    const { id } = await server.session(settings);
    const begin = `
import os
os.makedirs("closed/folder")
open("closed/file", "w").close()
os.symlink("file", "closed/link")
os.chmod("closed", 0o444)`;
    expect(await server.run(id, begin)).toMatchObject({ status: 'ok' });
    const { status, json } = await filesOf(server, id).list('closed');
    const told = (json.files as { name: string; kind: string }[] | undefined)?.map(({ name, kind }) => [name, kind]);
    expect([status, told?.toSorted()]).toEqual([
      200,
      [
        ['file', 'file'],
        ['folder', 'folder'],
        ['link', 'link'],
      ],
    ]);
  });
}
