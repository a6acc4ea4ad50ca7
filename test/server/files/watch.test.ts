/** What changes in a workspace, told as it changes: by the code, by clients, by hostile code. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, connect, type FileChange } from '../../../src/client/index.ts';
import { TestServer } from '../../support/servers/server.ts';
import { ndjson, sse } from '../../support/servers/streams.ts';

let server: TestServer;
let client: Client;
beforeAll(async () => {
  server = await TestServer.start({ limits: { heartbeatMs: 1000 } });
  client = await connect({ url: server.url, token: server.token });
});
afterAll(() => client.close());

/** Reads changes as they come; `until` waits for one. */
class Watch implements AsyncDisposable {
  readonly seen: FileChange[] = [];
  readonly #over = new AbortController();
  readonly #reading: Promise<void>;
  #news = Promise.withResolvers<void>();
  failure: unknown;
  ended = false;

  constructor(id: string, path = '') {
    this.#reading = this.#read(id, path);
  }

  static async begin(id: string, path = ''): Promise<Watch> {
    const watch = new Watch(id, path);
    await watch.until(({ type }) => type === 'watching');
    return watch;
  }

  async until(fits: (change: FileChange) => boolean): Promise<FileChange> {
    for (;;) {
      const { promise } = this.#news;
      const found = this.seen.find(fits);
      if (found) return found;
      if (this.ended) throw this.failure ?? new Error(`it has ended: ${JSON.stringify(this.seen.slice(-5))}`);
      await promise;
    }
  }

  told(type: FileChange['type'], path: string): Promise<FileChange> {
    return this.until((change) => change.type === type && 'path' in change && change.path === path);
  }

  /** Ends by itself. */
  async over(): Promise<unknown> {
    await this.#reading;
    return this.failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#reading;
  }

  async #read(id: string, path: string): Promise<void> {
    try {
      const session = await client.session(id);
      for await (const change of session.files.watch(path, { signal: this.#over.signal })) {
        this.seen.push(change);
        this.#tell();
      }
    } catch (error) {
      this.failure = error;
    }
    this.ended = true;
    this.#tell();
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

describe('a watch', () => {
  it('reports changes by the code and other clients, also in new folders', async () => {
    const { id } = await server.session({ agentKey: 'watched' });
    await using watch = await Watch.begin(id);
    await server.run(id, 'import os; os.makedirs("a/b/c"); open("a/b/c/deep.txt", "w").write("1")');
    await watch.told('created', 'a');
    await watch.told('created', 'a/b/c/deep.txt');
    await server.run(id, 'open("a/b/c/deep.txt", "a").write("2")');
    await watch.told('changed', 'a/b/c/deep.txt');
    await server.fetch(`PUT /v1/sessions/${id}/files/content?path=from/client.bin`, { body: 'x' });
    expect(await watch.told('created', 'from/client.bin')).toMatchObject({ kind: 'file' });
    await server.run(id, 'os.rename("a/b", "moved"); os.symlink("/etc", "link")');
    await watch.told('deleted', 'a/b');
    await watch.told('created', 'moved/c/deep.txt');
    expect(await watch.told('created', 'link')).toMatchObject({ kind: 'link' });
    await server.run(id, 'open("moved/c/later", "w").close(); os.remove("from/client.bin")');
    await watch.told('created', 'moved/c/later');
    await watch.told('deleted', 'from/client.bin');
    const paths = watch.seen.flatMap((change) => ('path' in change ? [change.path] : []));
    expect(paths.filter((path) => path.startsWith('link/') || path.endsWith('.part') || path.startsWith('/'))).toEqual(
      [],
    );
  });

  it('covers one folder on request, as NDJSON or server-sent events', async () => {
    const { id } = await server.session({ agentKey: 'part' });
    await server.run(id, 'import os; os.makedirs("in/side"); os.makedirs("out")');
    const url = `GET /v1/sessions/${id}/files/watch?path=in`;
    const write = () => server.run(id, 'open("out/no", "w").close(); open("in/side/yes", "w").close()');
    const named = ({ path }: { path?: unknown }) => path !== 'side/yes';
    const lines = await ndjson<Record<string, unknown>>(await server.fetch(url), async (line) => {
      if (line.type === 'watching') void write();
      return named(line);
    });
    expect(lines).toEqual([
      { type: 'watching', folders: 2 },
      { type: 'created', path: 'side/yes', kind: 'file' },
    ]);
    await server.run(id, 'os.remove("in/side/yes")');
    const response = await server.fetch(url, { headers: { accept: 'text/event-stream' } });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const sent = await sse(response, async ({ data }) => {
      if (data.type === 'watching') void write();
      return named(data);
    });
    expect(sent.at(-1)?.data).toMatchObject({ type: 'created', path: 'side/yes' });
  });

  it('cannot leave the workspace, and says why', async () => {
    const { id } = await server.session({ agentKey: 'nowhere' });
    await server.run(id, 'import os; os.symlink("/etc", "etc"); open("file", "w").close()');
    for (const [path, status] of [
      ['../x', 400],
      ['/etc', 400],
      ['etc', 400],
      ['file', 400],
      ['a/../../x', 400],
      ['none', 404],
    ]) {
      const answer = await server.call(`GET /v1/sessions/${id}/files/watch?path=${path}`);
      expect.soft({ path, status: answer.status }).toEqual({ path, status });
    }
  });

  it('does not follow a folder that is replaced by a link', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'cella-outside-'));
    const { id } = await server.session({ agentKey: 'swapped' });
    await server.run(id, 'import os; os.makedirs("folder")');
    await using watch = await Watch.begin(id);
    await server.run(
      id,
      `os.rmdir("folder"); os.symlink(${JSON.stringify(outside)}, "folder"); open("mark", "w").close()`,
    );
    await watch.told('created', 'mark');
    await writeFile(join(outside, 'secret'), 'x');
    await server.run(id, 'open("mark2", "w").close()');
    await watch.told('created', 'mark2');
    expect(JSON.stringify(watch.seen)).not.toContain('secret');
    await rm(outside, { recursive: true });
  });

  it('reports an overflow in one event, uses no memory, and continues', async () => {
    const { id } = await server.session({ agentKey: 'flood' });
    await using watch = await Watch.begin(id);
    await using quiet = await Watch.begin((await server.session({ agentKey: 'quiet' })).id);
    const before = process.memoryUsage().rss;
    const made = await server.run(id, 'import os\nfor n in range(20_000): os.mknod(f"f{n}"); os.unlink(f"f{n}")');
    expect(made).toMatchObject({ status: 'ok' });
    await watch.until(({ type }) => type === 'overflow');
    expect(watch.seen.length).toBeLessThan(30_000);
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000);
    await server.run(id, 'open("after", "w").close()');
    // Before the last rest is over, it is in what `overflow` says to list.
    await expect
      .poll(
        async () => {
          await server.run(id, 'open("again", "a").write("x")');
          return watch.seen.some((change) => 'path' in change && change.path === 'again');
        },
        { timeout: 20_000, interval: 300 },
      )
      .toBe(true);
    expect(quiet.ended).toBe(false);
  });

  it('watches a limited number of folders, and says if there are more', async () => {
    const { id } = await server.session({ agentKey: 'wide' });
    await server.run(id, 'import os\nfor n in range(2100): os.mkdir(f"d{n}")');
    await using watch = await Watch.begin(id);
    expect(await watch.until(({ type }) => type === 'overflow')).toEqual({ type: 'overflow', reason: 'folders' });
    expect(watch.seen[0]).toEqual({ type: 'watching', folders: 2000 });
  });

  it('ends with its session, its folder, and the right to view them', async () => {
    const { id } = await server.session({ agentKey: 'ending', shares: [{ role: 'member', right: 'view' }] });
    await server.run(id, 'import os; os.mkdir("sub")');
    const sub = await Watch.begin(id, 'sub');
    await server.run(id, 'os.rmdir("sub")');
    expect(await sub.over()).toMatchObject({ code: 'NOT_FOUND' });
    const token = await server.user('reader', 'member');
    const answer = await server.fetch(`GET /v1/sessions/${id}/files/watch`, { token });
    const lines = await ndjson<{ type: string; error?: { code: string } }>(answer, async ({ type }) => {
      if (type === 'watching') await server.call('PATCH /v1/users/reader', { body: { disabled: true } });
    });
    expect(lines.at(-1)?.error?.code).toBe('UNAUTHENTICATED');
    const whole = await Watch.begin(id);
    await server.call(`DELETE /v1/sessions/${id}`);
    expect(await whole.over()).toMatchObject({ code: 'NOT_FOUND' });
  });
});
