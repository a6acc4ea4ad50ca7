/** What one user may take of a server: every quota ends in a 429 that says which it is and when to come back. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { textOf } from '../../mcp/client.ts';
import { type Answer, TestServer } from '../../support/servers/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({
    membersMay: ['in-process'],
    credentialRates: { perSecond: 10_000, burst: 10_000 },
    // An agent that talks much.
    agents: {
      run: async ({ id: turn, saveTranscript: keepTranscript }) => {
        await keepTranscript(turn, 'x'.repeat(4_000_000));
        return { status: 'completed', conversation: turn };
      },
    },
  });
});

const limits = (memoryMb: number) => ({ limits: { memoryMb } });

async function bounded(name: string, quotas: Record<string, number>) {
  const token = await server.user(name, 'member');
  await server.call(`PATCH /v1/users/${name}`, { body: { quotas } });
  const call = (what: string, body?: unknown) => server.call(what, { token, body });
  return {
    token,
    call,
    session: async (agentKey: string, more = {}) => (await server.session({ agentKey, ...more }, token)).id,
    run: (id: string, code = '1') => call(`POST /v1/sessions/${id}/execute`, { code }),
  };
}

function expectOver({ status, json, headers }: Answer, quota: string): void {
  expect({ status, ...(json.error as object) }).toMatchObject({
    status: 429,
    code: 'QUOTA_EXCEEDED',
    details: { quota, retryAfterMs: expect.any(Number) },
  });
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
}

it('sessions, also if many are created at once and by forks; existing ones are found', async () => {
  const { session, call } = await bounded('sessions', { sessions: 2 });
  const made = await Promise.all(['1', '2', '3', '4'].map((agentKey) => call('POST /v1/sessions', { agentKey })));
  expect(made.map(({ status }) => status).toSorted()).toEqual([201, 201, 429, 429]);
  const [there] = made.filter(({ status }) => status === 201);
  expect(await session(String(there?.json.agentKey))).toBe(there?.json.id);
  expectOver(await call('POST /v1/sessions', { agentKey: 'more' }), 'sessions');
  expectOver(await call(`POST /v1/sessions/${there?.json.id}/fork`, { agentKey: 'fork' }), 'sessions');
  await server.call('PATCH /v1/users/sessions', { body: { quotas: { sessions: 3 } } });
  const more = await session('more');
  expectOver(await call('POST /v1/sessions', { agentKey: 'yet more' }), 'sessions');
  await call(`DELETE /v1/sessions/${more}`);
  await session('yet more');
});

it('live kernels; of two that start at once, one', async () => {
  const { session, run, call } = await bounded('kernels', { liveKernels: 1 });
  const [one, two] = [await session('1'), await session('2')];
  const both = await Promise.all([run(one), run(two)]);
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 429]);
  const [awake, asleep] = both[0].status === 200 ? [one, two] : [two, one];
  expectOver(await run(asleep), 'liveKernels');
  expectOver(await call(`POST /v1/sessions/${awake}/fork`, { agentKey: 'fork' }), 'liveKernels');
  expect((await call(`POST /v1/sessions/${awake}/hibernate`)).status).toBe(204);
  expect((await run(asleep)).status).toBe(200);
});

it('live kernels; of forks that start at once, only as many as fit', async () => {
  const { session, run, call } = await bounded('forks', { liveKernels: 3 });
  const id = await session('parent');
  expect((await run(id)).status).toBe(200);
  const forks = await Promise.all(
    ['1', '2', '3', '4', '5'].map((agentKey) => call(`POST /v1/sessions/${id}/fork`, { agentKey })),
  );
  expect(forks.map(({ status }) => status).toSorted()).toEqual([201, 201, 429, 429, 429]);
  // One that fails leaves its place.
  const [fork] = forks.filter(({ status }) => status === 201);
  expect((await call(`DELETE /v1/sessions/${fork?.json.id}`)).status).toBe(204);
  for (let n = 0; n < 3; n++) {
    const taken = await call(`POST /v1/sessions/${id}/fork`, { agentKey: 'parent' });
    expect(taken).toMatchObject({ status: 409, json: { error: { code: 'SESSION_CONFLICT' } } });
  }
  expect((await call(`POST /v1/sessions/${id}/fork`, { agentKey: '6' })).status).toBe(201);
});

it('memory, of live kernels whose limits are raised at once', async () => {
  const { session, run, call } = await bounded('more-memory', { memoryMb: 1500 });
  const ids = [await session('1', limits(500)), await session('2', limits(500))];
  for (const id of ids) expect((await run(id)).status).toBe(200);
  const changed = await Promise.all(ids.map((id) => call(`PATCH /v1/sessions/${id}`, limits(900))));
  expect(changed.map(({ status }) => status).toSorted()).toEqual([200, 429]);
});

it.each([
  ['profiles', 100, (n: number) => [`PUT /v1/profiles/p${n}`, {}] as const],
  ['rules', 200, (n: number) => ['POST /v1/permission-rules', { tool: 'Bash', pattern: `echo ${n}` }] as const],
  ['tokens', 200, (n: number) => ['POST /v1/tokens', { name: `t${n}` }] as const],
])('%s, and of many that are made at once no more than %i', async (what, most, make) => {
  const { call } = await bounded(`many-${what}`, {});
  const made = await Promise.all(
    Array.from({ length: most + 20 }, (_, n) => {
      const [route, body] = make(n);
      return call(route, body);
    }),
  );
  const { json } = await call(`GET /v1/${what === 'rules' ? 'permission-rules' : what}`);
  expect(json[what]).toHaveLength(most);
  expect(new Set(made.map(({ status }) => status))).toContain(429);
});

it('memory, also of a live kernel whose limit is raised', async () => {
  const { session, run, call } = await bounded('memory', { memoryMb: 1500 });
  const [one, two] = [await session('1', limits(1000)), await session('2', limits(1000))];
  expect((await run(one)).status).toBe(200);
  expectOver(await run(two), 'memoryMb');
  expectOver(await call(`PATCH /v1/sessions/${one}`, limits(2000)), 'memoryMb');
  expect((await call(`PATCH /v1/sessions/${one}`, limits(400))).status).toBe(200);
  expect((await run(one)).status).toBe(200);
  expect((await run(two)).status).toBe(200);
});

it('executions a minute, over REST and over MCP together', async () => {
  const { token, session, run } = await bounded('executions', { executionsPerMinute: 2 });
  const id = await session('1');
  expect((await run(id, 'x = 1')).status).toBe(200);
  const client = new Client({ name: 'test', version: '1' });
  const url = new URL(`/v1/sessions/${id}/mcp`, server.url);
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  const again = () => client.callTool({ name: 'run_code', arguments: { code: 'x + 1' } });
  expect(textOf(await again())).toContain('2');
  const refused = await again();
  expect(refused.isError).toBe(true);
  expect(textOf(refused)).toContain('executions a minute');
  await client.close();
  expectOver(await run(id), 'executionsPerMinute');
});

it('storage, with uploaded files and files from code', async () => {
  const { session, run, call, token } = await bounded('storage', { storageBytes: 3_000_000 });
  const id = await session('1');
  const write = (bytes: number) => {
    const path = `PUT /v1/sessions/${id}/files/content?path=f`;
    return server.call(path, { token, body: 'x'.repeat(bytes) });
  };
  expect((await write(1000)).status).toBe(200);
  expectOver(await write(5_000_000), 'storageBytes');
  const other = await bounded('written', {});
  const theirs = await other.session('1');
  await other.run(theirs, 'open("f", "wb").write(b"x" * 5_000_000)');
  await server.call('PATCH /v1/users/written', { body: { quotas: { storageBytes: 3_000_000 } } });
  expectOver(await other.run(theirs), 'storageBytes');
  const makeFolder = { path: 'more/folders' };
  expectOver(await other.call(`POST /v1/sessions/${theirs}/files/folders`, makeFolder), 'storageBytes');
  expect((await run(id)).status).toBe(200);
  expect((await call('GET /v1/sessions')).status).toBe(200);
});

it.runIf(process.getuid?.() === 0).each([
  ['open', 'held = open("f", "wb"); held.write(b"x" * 5_000_000); held.flush(); os.unlink("f")'],
  [
    'mapped, by a process that hides itself',
    `import ctypes, mmap
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
with open("f", "w+b") as file:
    file.write(b"x" * 5_000_000)
    file.flush()
    held = mmap.mmap(file.fileno(), 0)
os.unlink("f")`,
  ],
  [
    'in a thread with descriptors of its own',
    `import ctypes, threading
CLOSE_RANGE, UNSHARE = 436, 2
ready = threading.Event()
def hold():
    assert ctypes.CDLL(None).syscall(CLOSE_RANGE, ctypes.c_uint(1 << 20), ctypes.c_uint(1 << 20), UNSHARE) == 0
    held = open("f", "wb")
    held.write(b"x" * 5_000_000)
    held.flush()
    os.unlink("f")
    ready.set()
    threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
ready.wait()`,
  ],
  ...['open', 'mapped'].map((how): [string, string] => [
    `${how} by a process whose first thread has ended`,
    `import ctypes, mmap, subprocess, sys
code = """
import ctypes, mmap, os, sys, threading
EXIT = 60 if os.uname().machine == "x86_64" else 93
def hold():
    with open("f", "w+b") as file:
        file.write(b"x" * 5_000_000)
        file.flush()
        held = mmap.mmap(file.fileno(), 0) if sys.argv[1] == "mapped" else os.dup(file.fileno())
    os.unlink("f")
    first.wait()
    while open("/proc/%d/task/%d/stat" % (os.getpid(), os.getpid())).read().rpartition(")")[2].split()[0] != "Z":
        pass
    print("held", flush=True)
    threading.Event().wait()
first = threading.Event()
threading.Thread(target=hold).start()
libc = ctypes.CDLL(None)
first.set()
libc.syscall(EXIT, 0)
"""
holder = subprocess.Popen([sys.executable, "-c", code, "${how}"], stdout=subprocess.PIPE)
assert holder.stdout.readline() == b"held\\n"`,
  ]),
])('storage, with files that have no name any more: %s', async (how, code) => {
  const user = `unlinked-${createHash('sha256').update(how).digest('hex').slice(0, 8)}`;
  const { session, run } = await bounded(user, {});
  const id = await session('1');
  expect((await run(id, `import os\n${code}`)).status).toBe(200);
  await server.call(`PATCH /v1/users/${user}`, { body: { quotas: { storageBytes: 3_000_000 } } });
  expectOver(await run(id), 'storageBytes');
});

it.runIf(process.getuid?.() === 0)('storage, with a deleted file that is still downloaded', async () => {
  const { session, run, token } = await bounded('downloading', {});
  const id = await session('1');
  expect((await run(id, 'open("f", "wb").write(b"x" * 20_000_000)')).status).toBe(200);
  const over = new AbortController();
  const path = `GET /v1/sessions/${id}/files/content?path=f`;
  const download = await server.fetch(path, { token, signal: over.signal });
  expect((await run(id, 'import os; os.unlink("f")')).status).toBe(200);
  await server.call('PATCH /v1/users/downloading', { body: { quotas: { storageBytes: 3_000_000 } } });
  expectOver(await run(id), 'storageBytes');
  over.abort();
  await download.body?.cancel().catch(() => {}); // it was cut
  // What is used is measured anew after a time without a limit.
  const measured = async () => {
    await server.call('PATCH /v1/users/downloading', { body: { quotas: {} } });
    await run(id);
    await server.call('PATCH /v1/users/downloading', { body: { quotas: { storageBytes: 3_000_000 } } });
    return (await run(id)).status;
  };
  await expect.poll(measured).toBe(200);
});

it.runIf(process.getuid?.() === 0)('storage, with deleted folders that are not removed yet', async () => {
  const { session, run, call } = await bounded('refilling', {});
  const id = await session('1');
  expect((await run(id, 'open("f", "wb").write(b"x" * 5_000_000)')).status).toBe(200);
  const agents = join(server.facts.dataDir, 'agents');
  const folder = readdirSync(agents).find((name) => name.includes('refilling')) ?? '';
  // What is mounted cannot be removed.
  const held = join(agents, folder, 'workspace', 'f');
  execFileSync('mount', ['--bind', held, held]);
  const left = () => readdirSync(agents).filter((name) => name.startsWith('.removed-'));
  const unmount = () => {
    for (const name of left()) execFileSync('umount', ['-q', join(agents, name, 'workspace', 'f')]);
  };
  onTestFinished(unmount);
  expect((await call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
  expect(left()).toHaveLength(1);
  await server.call('PATCH /v1/users/refilling', { body: { quotas: { storageBytes: 3_000_000 } } });
  const next = await session('2');
  expectOver(await run(next), 'storageBytes');
  const { session: others, run: runOther } = await bounded('bystander', { storageBytes: 3_000_000 });
  expect((await runOther(await others('1'))).status).toBe(200);
});

it('storage, with successive checkpoints', async () => {
  const { session, run, call } = await bounded('points', { storageBytes: 5_000_000 });
  const id = await session('1');
  await run(id, 'import os; x = os.urandom(2_000_000)');
  const make = () => call(`POST /v1/sessions/${id}/checkpoints`, { durable: true });
  const made = [await make(), await make(), await make()];
  expect(made.map(({ status }) => status)).toEqual([201, 201, 201]);
  expectOver(await make(), 'storageBytes');
});

it('storage, with the metadata of empty artifacts', async () => {
  const { session, run, call } = await bounded('told', { storageBytes: 300_000 });
  const id = await session('1');
  const metadata = encodeURIComponent(JSON.stringify({ k: 'x'.repeat(8000) }));
  const save = (n: number) => call(`PUT /v1/artifacts/a${n}/content?metadata=${metadata}`, {});
  const made = await Promise.all(Array.from({ length: 50 }, (_, n) => save(n)));
  expect(new Set(made.map(({ status }) => status))).toEqual(new Set([200, 429]));
  await server.call('PATCH /v1/users/told', { body: { quotas: {} } });
  const code = `for n in range(10): artifacts.save(f'b{n}', b'', metadata={'k': 'x' * 60_000})`;
  expect((await run(id, code)).status).toBe(200);
  await server.call('PATCH /v1/users/told', { body: { quotas: { storageBytes: 300_000 } } });
  expectOver(await run(id), 'storageBytes');
});

it('storage, with conversations of agents; no prompt starts without room', async () => {
  const { session, run, call } = await bounded('words', { storageBytes: 3_000_000 });
  const id = await session('1');
  const prompt = () => call(`POST /v1/sessions/${id}/prompt`, { prompt: 'Talk.', agent: 'claude' });
  expect(await prompt()).toMatchObject({ status: 200, json: { status: 'completed' } });
  // It is measured anew where there was no limit meanwhile.
  await server.call('PATCH /v1/users/words', { body: { quotas: {} } });
  expect((await run(id)).status).toBe(200);
  await server.call('PATCH /v1/users/words', { body: { quotas: { storageBytes: 3_000_000 } } });
  expectOver(await prompt(), 'storageBytes');
  expectOver(await run(id), 'storageBytes');
});

it('storage, with artifacts that are not finished, and a deleted one that is still open', async () => {
  const { session, run } = await bounded('unfinished', {});
  const id = await session('1');
  const limit = (quotas: Record<string, number>) => server.call('PATCH /v1/users/unfinished', { body: { quotas } });
  const begin = `
import sys
host = sys.modules[type(artifacts).__module__].host
handle = host.call("artifacts.begin", name="a")
for _ in range(5):
    host.call("artifacts.write", handle=handle, data=bytes(1_000_000))`;
  expect((await run(id, begin)).status).toBe(200);
  await limit({ storageBytes: 3_000_000 });
  expectOver(await run(id), 'storageBytes');
  await limit({});
  const finish = 'host.call("artifacts.finish", handle=handle, type="bytes", mediaType="application/octet-stream")';
  const hold = 'held = host.call("artifacts.open", name="a"); artifacts.delete("a")';
  expect((await run(id, `${finish}\n${hold}`)).status).toBe(200);
  await limit({ storageBytes: 3_000_000 });
  expectOver(await run(id), 'storageBytes');
  await limit({});
  expect((await run(id, 'host.call("artifacts.close", handle=held["handle"])')).status).toBe(200);
  await limit({ storageBytes: 3_000_000 });
  expect((await run(id)).status).toBe(200);
});

it.each(['files/content?path=long', 'artifacts/long/content'])('storage, of %s without a length', async (path) => {
  const { session, token } = await bounded(`chunked-${path.slice(0, 5)}`, { storageBytes: 1_000_000 });
  const url = new URL(`/v1/sessions/${await session('1')}/${path}`, server.url);
  let sent = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (sent++ < 100) controller.enqueue(new Uint8Array(100_000));
      else controller.close();
    },
  });
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(url, { method: 'PUT', headers, body, duplex: 'half' });
  const { status } = answer;
  expectOver({ status, headers: answer.headers, text: '', json: JSON.parse(await answer.text()) }, 'storageBytes');
  // It is told in the audit log, with where it came from.
  const { json } = await server.call<{ entries: Record<string, unknown>[] }>('GET /v1/audit?after=0&limit=1000');
  expect(json.entries).toContainEqual(
    expect.objectContaining({ target: 'long', from: '127.0.0.1', code: 'QUOTA_EXCEEDED' }),
  );
});

it('`in-process` is available to members only if an admin allows it', async () => {
  const { call } = await bounded('trusted', {});
  expect((await call('POST /v1/sessions', { agentKey: 'i', executor: 'in-process' })).status).toBe(201);
  for (const body of [{ sandbox: 'off' }, { cwd: '/' }, { sandbox: { network: 'host' } }]) {
    expect((await call('POST /v1/sessions', { agentKey: 'x', ...body })).status).toBe(403);
  }
});

it('a fork has no options that its creator could not request', async () => {
  const { call } = await bounded('forker', {});
  const shares = [{ user: 'forker', right: 'manage' }];
  const { id } = await server.session({ agentKey: 'wide', sandbox: { readable: ['/etc'] }, shares });
  const { status, json } = await call(`POST /v1/sessions/${id}/fork`, { agentKey: 'mine' });
  expect({ status, ...(json.error as object) }).toMatchObject({ status: 403, details: { privilege: 'folders' } });
});
