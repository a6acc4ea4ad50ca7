/** Files, tools, skills, artifacts and packages of a session, through the server. */

import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let id: string;
let at: string;
beforeAll(async () => {
  server = await TestServer.start();
  ({ id } = await server.session({ agentKey: 'files' }));
  at = `/v1/sessions/${id}`;
});

const codeOf = (json: Record<string, unknown>): unknown => (json.error as { code?: string } | undefined)?.code;

async function put(path: string, body: string | ReadableStream): Promise<Response> {
  const url = new URL(path, server.url);
  return await fetch(url, {
    method: 'PUT',
    body,
    headers: { authorization: `Bearer ${server.token}` },
    duplex: 'half',
  } as RequestInit);
}

describe('files', () => {
  it('are exchanged with the code of the session in both directions', async () => {
    expect((await put(`${at}/files/content?path=in/data.txt`, 'from outside')).status).toBe(200);
    expect(await server.run(id, 'open("in/data.txt").read()')).toMatchObject({ value: 'from outside' });
    expect(await server.run(id, 'open("in/data.txt", "a").write("!")')).toMatchObject({ status: 'ok' });
    await server.run(id, 'open("out.bin", "wb").write(bytes(range(256)))');
    const bytes = await (await server.fetch(`GET ${at}/files/content?path=out.bin`)).arrayBuffer();
    expect([...new Uint8Array(bytes)]).toEqual(Array.from({ length: 256 }, (_, byte) => byte));
    const { json } = await server.call<{ files: unknown[] }>(`GET ${at}/files`);
    expect(json.files).toMatchObject([
      { name: 'in', kind: 'folder' },
      { name: 'out.bin', kind: 'file', size: 256 },
    ]);
    const moved = { from: 'out.bin', to: 'kept/out.bin' };
    expect((await server.call(`POST ${at}/files/move`, { body: moved })).status).toBe(200);
    expect((await server.call(`DELETE ${at}/files?path=kept&recursive=true`)).status).toBe(204);
    expect((await server.call(`GET ${at}/files/content?path=kept/out.bin`)).status).toBe(404);
  });

  it('have folders that are created with their parents, that the code can use, and that keep their contents', async () => {
    const make = (path: string) => server.call(`POST ${at}/files/folders`, { body: { path } });
    expect((await make('made/for/code')).status).toBe(204);
    const { json } = await server.call<{ files: unknown[] }>(`GET ${at}/files?path=made/for`);
    expect(json.files).toMatchObject([{ name: 'code', kind: 'folder' }]);
    expect(await server.run(id, 'open("made/for/code/a", "w").write("kept")')).toMatchObject({ status: 'ok' });
    expect((await make('made/for')).status).toBe(204);
    expect(await server.run(id, 'open("made/for/code/a").read()')).toMatchObject({ value: 'kept' });
    await server.run(id, 'import os; os.symlink("made", "link"); os.symlink("/tmp", "tmp")');
    // A link that stays inside leads on, as for the code.
    expect((await make('link/for/code')).status).toBe(204);
    for (const path of ['made/for/code/a', 'made/for/code/a/b', 'tmp/x', '../x', '/tmp/x', 'a/../../x']) {
      const { status, json } = await make(path);
      expect.soft({ path, status, code: codeOf(json) }).toEqual({ path, status: 400, code: 'INVALID_REQUEST' });
    }
    expect(await server.run(id, 'os.listdir("made")')).toMatchObject({ value: ['for'] });
    const { json: audit } = await server.call<{ entries: object[] }>(`GET /v1/audit?session=${id}&limit=1000`);
    expect(audit.entries).toContainEqual(
      expect.objectContaining({ action: 'file.make-folder', target: 'made/for/code', outcome: 'ok' }),
    );
    for (const path of ['made', 'link', 'tmp']) await server.call(`DELETE ${at}/files?path=${path}&recursive=true`);
  });

  it('can have any size, in bounded memory', async () => {
    const chunk = Buffer.alloc(1024 * 1024, 7);
    const count = 150;
    const hash = createHash('sha256');
    for (let n = 0; n < count; n++) hash.update(chunk);
    const before = process.memoryUsage().rss;
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        if (sent++ < count) controller.enqueue(chunk);
        else controller.close();
      },
    });
    expect((await put(`${at}/files/content?path=large`, body)).status).toBe(200);
    const response = await server.fetch(`GET ${at}/files/content?path=large`);
    expect(response.headers.get('content-length')).toBe(String(count * chunk.length));
    const back = createHash('sha256');
    for await (const part of response.body ?? []) back.update(part);
    expect(back.digest('hex')).toBe(hash.digest('hex'));
    expect(process.memoryUsage().rss - before).toBeLessThan(150_000_000);
  });

  it('stay in the workspace, whatever the code links or a client names', async () => {
    await server.run(id, 'import os; os.symlink("/etc", "etc"); os.symlink("/etc/hostname", "name")');
    for (const path of ['../x', '/etc/hostname', 'etc/hostname', 'name', 'a/../../x', '..%2F..%2Fx', 'x%00y']) {
      const read = await server.call(`GET ${at}/files/content?path=${path}`);
      expect.soft({ path, status: read.status }).toEqual({ path, status: 400 });
    }
    expect((await put(`${at}/files/content?path=etc/evil`, 'x')).status).toBe(400);
    expect(codeOf((await server.call(`GET ${at}/files?path=etc`)).json)).toBe('INVALID_REQUEST');
  });

  it('are not sockets or pipes, and can be deleted even if their names are not text', async () => {
    const odd = 'os.mkdir("odd"); os.mkdir(b"odd/\\xff"); open(b"odd/\\xff/\\xfe", "w").close()';
    await server.run(id, `import os, socket; socket.socket(socket.AF_UNIX).bind("socket"); os.mkfifo("pipe"); ${odd}`);
    for (const path of ['socket', 'pipe']) {
      const { status, json } = await server.call(`GET ${at}/files/content?path=${path}`);
      expect.soft({ path, status, code: codeOf(json) }).toEqual({ path, status: 400, code: 'INVALID_REQUEST' });
    }
    expect((await server.call(`DELETE ${at}/files?path=odd&recursive=true`)).status).toBe(204);
    expect(await server.run(id, 'os.path.exists("odd")')).toMatchObject({ value: false });
  });

  it('are never shown as pages of the server', async () => {
    await put(`${at}/files/content?path=page.html`, '<script>alert(1)</script>');
    const { headers } = await server.fetch(`GET ${at}/files/content?path=page.html`);
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('content-disposition')).toContain('attachment');
    expect(headers.get('content-security-policy')).toContain('sandbox');
  });

  it('leave nothing behind if the client disconnects in the middle', async () => {
    const leaving = new AbortController();
    const body = new ReadableStream({
      async pull(controller) {
        controller.enqueue(Buffer.alloc(1000));
        await new Promise((resolve) => setImmediate(resolve));
        leaving.abort();
      },
    });
    const url = new URL(`${at}/files/content?path=half`, server.url);
    const headers = { authorization: `Bearer ${server.token}` };
    const options = { method: 'PUT', body, headers, duplex: 'half', signal: leaving.signal } as RequestInit;
    await fetch(url, options).catch(() => {});
    const names = async () =>
      (await server.call<{ files: { name: string }[] }>(`GET ${at}/files`)).json.files.map(({ name }) => name);
    await expect
      .poll(async () => (await names()).filter((name) => name.includes('half') || name.endsWith('.part')))
      .toEqual([]);
  });
});

describe('namespaces', () => {
  it('have skills for the code, and those that the code has created', async () => {
    const source = 'async def run(n):\n    """Doubles."""\n    return n * 2\n';
    const made = await server.call(`POST ${at}/skills`, { body: { name: 'double', source } });
    expect(made).toMatchObject({ status: 201, json: { name: 'double', description: 'Doubles.' } });
    expect(await server.run(id, 'await skills.double(n=21)')).toMatchObject({ value: 42 });
    expect((await server.call(`GET ${at}/skills?q=doubles`)).json).toMatchObject({ skills: [{ name: 'double' }] });
    expect((await server.call(`GET ${at}/skills/double`)).json).toMatchObject({ source });
    expect((await server.call(`POST ${at}/skills`, { body: { name: 'bad', source: 'x' } })).status).toBe(422);
    expect((await server.call(`DELETE ${at}/skills/double`)).status).toBe(204);
    expect((await server.call(`GET ${at}/skills/double`)).status).toBe(404);
  });

  it('have artifacts with any bytes', async () => {
    expect((await put(`${at}/artifacts/note.txt/content?type=text&mediaType=text/plain`, 'hello')).status).toBe(200);
    expect(await server.run(id, 'artifacts.load("note.txt")')).toMatchObject({ value: 'hello' });
    await server.run(id, 'artifacts.save("raw", b"\\x00\\xff")');
    expect((await server.call(`GET ${at}/artifacts`)).json).toHaveProperty('artifacts.length', 2);
    const bytes = await (await server.fetch(`GET ${at}/artifacts/raw/content`)).arrayBuffer();
    expect([...new Uint8Array(bytes)]).toEqual([0, 255]);
    expect((await server.call(`DELETE ${at}/artifacts/raw`)).status).toBe(204);
    expect((await server.call(`GET ${at}/artifacts/raw`)).status).toBe(404);
    expect((await put(`${at}/artifacts/${encodeURIComponent('../x')}/content`, 'x')).status).toBe(400);
  });

  it('lock packages if the session does', async () => {
    const { id: locked } = await server.session({ agentKey: 'locked', allowRuntimeDeps: false });
    const path = `/v1/sessions/${locked}/deps`;
    expect((await server.call(`GET ${path}`)).json).toEqual({ deps: [] });
    expect(codeOf((await server.call(`POST ${path}`, { body: { requirements: ['x'] } })).json)).toBe('DEPS_LOCKED');
    expect(codeOf((await server.call(`DELETE ${path}/x`)).json)).toBe('DEPS_LOCKED');
    const add = await server.call(`POST ${at}/deps`, { body: { requirements: ['x @ http://evil'] } });
    expect(codeOf(add.json)).toBe('DEPS_INVALID');
    expect((await server.call(`GET ${at}/tools`)).json).toEqual({ tools: [] });
    expect((await server.call(`POST ${at}/tools/none/call`, { body: {} })).status).toBe(404);
  });
});
