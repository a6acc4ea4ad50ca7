/** What the server does with files for a session: exactly what the code of that session can do, whatever the code does meanwhile. */

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { shareCache } from '../../support/run/shared-cache.ts';
import { TestServer } from '../../support/servers/server.ts';
import { Server } from '../stalls/rows.ts';
import { CANARY, filesOf, folderFor, hostileFiles, root, SWAPPING } from './hostile.ts';

type Files = ReturnType<typeof filesOf>;

const WORKS = `
import os, uuid
def can(work):
    try:
        work()
        return True
    except OSError:
        return False
def replace(at):
    part = os.path.join(os.path.dirname(at), "part-" + uuid.uuid4().hex)
    try:
        open(part, "w").close()
        os.rename(part, at)
    finally:
        if os.path.exists(part): os.unlink(part)
`;

/** Each work on files and folders of all owners and modes, by the code and by the API, in a named folder and in the session's own. */
function sameRights(
  start: (dataDir: string) => Promise<TestServer>,
  settings: { readonly executor?: string } = {},
): void {
  it.each(['a named folder', 'its own folder'])('the server can do exactly what the code can, in %s', async (where) => {
    const dataDir = shareCache(await scratchFolder());
    const server = await start(dataDir);
    const cwd = where === 'a named folder' ? await folderFor(1000) : undefined;
    // A container shows what was mounted in it before; a sandbox does not.
    const mounts = cwd !== undefined && settings.executor === 'container' ? [join(cwd, 'in-mount')] : [];
    for (const at of mounts) {
      mkdirSync(at);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=777', 'cella-test', at]);
      onTestFinished(() => void execFileSync('umount', ['-l', at]));
    }
    const { id } = await server.session({ ...settings, cwd });
    const agents = join(server.facts.dataDir, 'agents');
    expect(await server.run(id, WORKS)).toMatchObject({ status: 'ok' });
    const own = join(agents, readdirSync(agents).find((name) => !name.startsWith('.')) ?? '', 'workspace');
    const folder = cwd ?? own;
    // A sandbox shows a named folder as that of its user.
    const uid = statSync(settings.executor === undefined ? folder : own).uid;
    expect(uid).toBeGreaterThan(0);
    const kinds: [name: string, uid: number, mode: number][] = [
      ['own-600', uid, 0o600],
      ['own-000', uid, 0o000],
      ['own-444', uid, 0o444],
      ['root-600', 0, 0o600],
      ['root-644', 0, 0o644],
      ['root-666', 0, 0o666],
      ['other-640', 1001, 0o640],
      ['folder-640', statSync(folder).uid, 0o640],
    ];
    const folders: [name: string, uid: number, mode: number][] = [
      ...mounts.map((at): [string, number, number] => [basename(at), 0, 0o777]),
      ['in-own-700', uid, 0o700],
      ['in-own-555', uid, 0o555],
      ['in-root-700', 0, 0o700],
      ['in-root-755', 0, 0o755],
      ['in-root-777', 0, 0o777],
      ['in-root-1777', 0, 0o1777],
    ];
    const fill = () => {
      const names = [folder, ...mounts].flatMap((at) => readdirSync(at).map((name) => join(at, name)));
      execFileSync('rm', ['-rf', ...names.filter((at) => !mounts.includes(at))]);
      const put = (at: string, owner: number, mode: number) => {
        writeFileSync(at, `text of ${at}`);
        chownSync(at, owner, owner);
        chmodSync(at, mode);
      };
      for (const [name, owner, mode] of kinds) put(join(folder, name), owner, mode);
      for (const [name, owner, mode] of folders) {
        mkdirSync(join(folder, name), { recursive: true });
        put(join(folder, name, 'mine'), uid, 0o644);
        put(join(folder, name, 'root'), 0, 0o600);
        chownSync(join(folder, name), owner, owner);
        chmodSync(join(folder, name), mode);
      }
    };
    const paths = [...kinds.map(([name]) => name), ...folders.flatMap(([name]) => [`${name}/mine`, `${name}/root`])];
    const works = {
      read: { code: 'open(at).read()', api: (files: Files, at: string) => files.read(at) },
      write: { code: 'replace(at)', api: (files: Files, at: string) => files.write(at, '') },
      move: {
        code: 'os.rename(at, at + ".moved")',
        api: (files: Files, at: string) => files.move(at, `${at}.moved`),
      },
      delete: { code: 'os.unlink(at)', api: (files: Files, at: string) => files.remove(at) },
      list: {
        code: 'os.listdir(os.path.dirname(at) or ".")',
        api: (files: Files, at: string) => files.list(at.includes('/') ? (at.split('/')[0] ?? '') : ''),
      },
      make: { code: 'os.mkdir(at + ".d")', api: (files: Files, at: string) => files.make(`${at}.d`) },
    };
    const byCode: Record<string, unknown> = {};
    for (const [name, { code }] of Object.entries(works)) {
      fill();
      const ran = await server.run(id, `[at for at in ${JSON.stringify(paths)} if can(lambda: ${code})]`);
      expect(ran).toMatchObject({ status: 'ok' });
      byCode[name] = ran.value;
      // It is no agreement of those who can do nothing, or everything.
      expect.soft([[], paths], name).not.toContainEqual(ran.value);
    }
    const byApi = async (files: Files) => {
      const done: Record<string, string[]> = {};
      for (const [name, { api }] of Object.entries(works)) {
        fill();
        done[name] = [];
        for (const at of paths) if ((await api(files, at)).status < 300) done[name].push(at);
      }
      return done;
    };
    expect.soft(await byApi(filesOf(server, id))).toEqual(byCode);
    // The rights of a session that no kernel has woken are known from what lies in its folder alone.
    await server[Symbol.asyncDispose]();
    expect.soft(await byApi(filesOf(await start(dataDir), id))).toEqual(byCode);
  });
}

describe('in a sandbox', () => {
  hostileFiles(() => TestServer.start());
  if (root) sameRights((dataDir) => TestServer.start({ dataDir }));
});

describe.skipIf(!canRunDocker)('in a container', { timeout: 120_000 }, () => {
  const start = async (dataDir?: string) => {
    const engine = await sharedEngineWithImage();
    return await TestServer.start({ dataDir: dataDir ?? shareCache(await scratchFolder()), session: { engine } });
  };
  hostileFiles(start, { executor: 'container' });
  sameRights(start, { executor: 'container' });

  it('does not start in a folder that code has replaced', async () => {
    const cella = await start();
    const [outer, elsewhere] = [await folderFor(1000, 'a', 'a/b'), await folderFor(1000, 'b')];
    writeFileSync(join(elsewhere, 'b', 'canary'), CANARY);
    writeFileSync(join(outer, 'a', 'b', 'canary'), 'mine');
    const settings = { executor: 'container', cwd: join(outer, 'a', 'b') };
    const inner = await Promise.all([0, 1, 2, 3].map((n) => cella.session({ ...settings, agentKey: `inner ${n}` })));
    const { id } = await cella.session({ ...settings, agentKey: 'around', cwd: outer });
    const begin = `${SWAPPING}
os.symlink(${JSON.stringify(elsewhere)}, "l")
swapping([("a", "l")], ".swap")`;
    expect(await cella.run(id, begin)).toMatchObject({ status: 'ok' });
    for (const session of inner) {
      const seen = await cella.run(session.id, 'open("canary").read()');
      expect(JSON.stringify(seen)).not.toContain(CANARY);
    }
  });
});

describe.runIf(root)('on a host that runs as root, below a named folder', () => {
  it('a mount is not entered', async () => {
    const cella = await TestServer.start();
    const folder = await folderFor(1000);
    mkdirSync(join(folder, 'mounted'));
    chownSync(join(folder, 'mounted'), 1000, 1000);
    const { id } = await cella.session({ cwd: folder });
    expect(await cella.run(id, '1')).toMatchObject({ status: 'ok' });
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=777,uid=1000,gid=1000', 'cella-test', join(folder, 'mounted')]);
    onTestFinished(() => void execFileSync('umount', [join(folder, 'mounted')]));
    writeFileSync(join(folder, 'mounted', 'canary'), CANARY, { mode: 0o666 });
    const files = filesOf(cella, id);
    expect((await files.read('mounted/canary')).text).not.toContain(CANARY);
    expect(await files.list('mounted')).toMatchObject({ status: 200, json: { files: [] } });
    await files.write('mounted/new', 'x');
    await files.remove('mounted/canary');
    await files.move('mounted/canary', 'stolen');
    expect(readdirSync(join(folder, 'mounted'))).toEqual(['canary']);
    expect(existsSync(join(folder, 'stolen'))).toBe(false);
    // As by the code, what is written there lies below the mount.
    expect(await cella.run(id, 'import os; print(os.listdir("mounted"))')).toMatchObject({ status: 'ok' });
  });

  it('continues after the file broker was killed', async () => {
    const cella = await TestServer.start();
    const { id } = await cella.session({});
    const files = filesOf(cella, id);
    expect((await files.write('a', 'x')).status).toBe(200);
    const [broker] = brokers();
    process.kill(Number(broker), 'SIGKILL');
    expect((await files.read('a')).text).toBe('x');
    expect(brokers()).toHaveLength(1);
    expect(brokers()).not.toEqual([broker]);
  });

  it('does not need the right to trace other processes', { timeout: 60_000 }, async () => {
    const without = ['setpriv', '--bounding-set', '-sys_ptrace'];
    const server = await Server.start(await scratchFolder(), without);
    onTestFinished(() => server.end());
    const ids = await Promise.all(
      ['one', 'other'].map(async (agentKey) => {
        const { id } = await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey });
        const code = 'open("a", "w").write("x")';
        await server.json(`POST /v1/sessions/${id}/execute`, server.token, { code });
        return id;
      }),
    );
    const statuses = new Set<number>();
    // While some are read, others change whose rights a thread has.
    const read = async (id: string) => {
      for (let round = 0; round < 100; round++) {
        statuses.add(await server.discard('GET', `/v1/sessions/${id}/files/content?path=a`, server.token));
        statuses.add(await server.discard('GET', `/v1/sessions/${id}/files?path=`, server.token));
      }
    };
    await Promise.all(
      Array.from({ length: 16 }, () => ids)
        .flat()
        .map(read),
    );
    expect(statuses).toEqual(new Set([200]));
  });

  it('nothing stays open of an upload whose folder was removed', async () => {
    const cella = await TestServer.start();
    const folder = await folderFor(1000);
    const { id } = await cella.session({ cwd: folder });
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const headers = { authorization: `Bearer ${cella.token}` };
    const path = `/v1/sessions/${id}/files/content?path=late`;
    const answer = fetch(new URL(path, cella.url), { method: 'PUT', headers, body: readable, duplex: 'half' });
    const writer = writable.getWriter();
    await writer.write(Buffer.from('begun'));
    await expect.poll(() => readdirSync(folder).some((name) => name.endsWith('.part'))).toBe(true);
    renameSync(folder, `${folder}-away`);
    await writer.close();
    expect((await answer).status).toBeGreaterThanOrEqual(200);
    const held = () => {
      const fds = `/proc/${brokers()[0]}/fd`;
      return readdirSync(fds).filter((fd) => linkOf(join(fds, fd)).endsWith('.part'));
    };
    await expect.poll(held).toEqual([]);
    expect(readdirSync(`${folder}-away`).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('watching reports nothing of a folder that the code cannot read', async () => {
    const cella = await TestServer.start();
    const folder = await folderFor(1000);
    mkdirSync(join(folder, 'closed'), { mode: 0o700 });
    const { id } = await cella.session({ cwd: folder });
    const over = new AbortController();
    const answer = await cella.fetch(`GET /v1/sessions/${id}/files/watch?path=`, { signal: over.signal });
    const told: string[] = [];
    const decoder = new TextDecoder();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const read = async () => {
      for await (const chunk of answer.body ?? []) {
        told.push(decoder.decode(chunk, { stream: true }));
        if (told.length === 1) {
          writeFileSync(join(folder, 'closed', 'hidden-name'), 'x');
          writeFileSync(join(folder, 'last'), 'x');
        }
        if (told.join('').includes('"last"')) resolve();
      }
    };
    read().catch(() => {}); // it is cut below
    await ended;
    over.abort();
    expect(told.join('')).not.toContain('hidden-name');
    const closed = await cella.call(`GET /v1/sessions/${id}/files/watch?path=closed`);
    expect(closed.status).toBe(400);
  });
});

function brokers(): string[] {
  const found = execFileSync('pgrep', ['-P', String(process.pid), '-f', 'cella_kernel files'], { encoding: 'utf8' });
  return found.trim().split('\n');
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // closed meanwhile
  }
}
