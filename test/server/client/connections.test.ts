/** The client where things go wrong: connections that break, servers that are started again, and what is not one's own. */

import { getEventListeners } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ClientSession, connect } from '../../../src/client/index.ts';
import { collect, resultOf, scratchFolder } from '../../support/kernels/session.ts';
import { connectTo, sharedServer } from '../../support/servers/client.ts';
import { CuttingProxy } from '../../support/servers/cutting-proxy.ts';
import { TestServer } from '../../support/servers/server.ts';

type Facts = Parameters<ClientSession['artifacts']['save']>[2];

let made = 0;
const agentKey = () => `faults ${made++}`;

/** A session behind a connection that can be cut. */
async function throughProxy() {
  const server = await sharedServer();
  const proxy = await CuttingProxy.to(server.url);
  const client = await connect({ url: proxy.url, token: server.token });
  return { proxy, session: await client.open({ agentKey: agentKey() }) };
}

describe('a connection that breaks', () => {
  it('in the middle of a stream loses and repeats no output, and the code runs once', async () => {
    const { proxy, session } = await throughProxy();
    await using _ = proxy;
    // The question in the middle is answered after a cut, so that one comes before the end however fast the output is read.
    const code = `import time
runs = globals().get("runs", 0) + 1
for n in range(40):
    print(n)
    time.sleep(0.01)
    if n == 20: input()
runs`;
    let text = '';
    let cuts = 0;
    const connections = proxy.connections;
    for await (const event of session.stream(code)) {
      if (event.type === 'stdout') {
        text += event.text;
        if (cuts++ % 5 === 0) proxy.cut();
      }
      if (event.type === 'input_request') {
        proxy.cut();
        await session.answerInput(event.id, '');
      }
      if (event.type === 'result') expect(event).toMatchObject({ status: 'ok', value: 1, stdout: text });
    }
    expect(text).toBe(Array.from({ length: 40 }, (_, n) => `${n}\n`).join(''));
    expect(proxy.connections).toBeGreaterThan(connections + 1);
  });

  it('while code is queued, or runs without output, is not noticed by the caller', async () => {
    const { proxy, session } = await throughProxy();
    await using _ = proxy;
    const runs: number[] = [];
    const first = session.run('n = globals().get("n", 0) + 1\ninput()\nn', {
      onInput: async ({ id }) => {
        runs.push(id);
        const waiting = session.run('m = globals().get("m", 0) + 1\nm');
        proxy.cut();
        await session.variables().catch(() => {}); // the kernel is busy
        proxy.cut();
        second = waiting;
        return '';
      },
    });
    let second: Promise<unknown> | undefined;
    expect(await first).toMatchObject({ status: 'ok', value: 1 });
    expect(await second).toMatchObject({ status: 'ok', value: 1 });
    expect(runs).toHaveLength(1);
  });

  it('does not prevent stopping an aborted execution', async () => {
    const { proxy, session } = await throughProxy();
    await using _ = proxy;
    const abort = new AbortController();
    const events = session.stream('print("ready", flush=True)\nwhile True: pass', { signal: abort.signal });
    const all = [];
    for await (const event of events) {
      all.push(event);
      if (event.type !== 'stdout') continue;
      proxy.cut();
      abort.abort();
    }
    expect(resultOf(all)).toMatchObject({ status: 'interrupted', stdout: 'ready\n' });
  });

  it('resumes by number if a WebSocket follows the events', async () => {
    const { proxy, session } = await throughProxy();
    await using _ = proxy;
    const seen: number[] = [];
    const over = new AbortController();
    const following = (async () => {
      for await (const event of session.events({ signal: over.signal })) {
        if (!('seq' in event)) continue;
        seen.push(event.seq);
        if (seen.length % 3 === 0) proxy.cut();
        if (event.type === 'stdout' && event.text === 'last\n') over.abort();
      }
    })();
    for (let n = 0; n < 5; n++) await session.run(`print(${n})`);
    await session.run('print("last")');
    await following;
    expect(seen).toEqual(Array.from({ length: seen.length }, (_, n) => n + 1));
  });
});

describe('a server that restarts', () => {
  it('reports lost code to its caller, and the session continues', async () => {
    const dataDir = await scratchFolder();
    const before = await TestServer.start({ dataDir, graceMs: 0 });
    await using proxy = await CuttingProxy.to(before.url);
    const client = await connect({ url: proxy.url, token: before.token });
    const session = await client.open({ agentKey: 'restarted' });
    await session.run('kept = 5');
    const ready = Promise.withResolvers<void>();
    const running = session.run('print("ready", flush=True)\nwhile True: pass', {
      onEvent: (event) => event.type === 'stdout' && ready.resolve(),
    });
    const outcome = running.then(
      ({ status }) => status,
      ({ code }) => code,
    );
    await ready.promise;
    await before[Symbol.asyncDispose]();
    const after = await TestServer.start({ dataDir });
    proxy.target = new URL(after.url);
    // In good order it is interrupted and told so; where that was not to be done in time, it is lost.
    expect(['interrupted', 'EXECUTION_LOST']).toContain(await outcome);
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: 5 });
  });

  it('is waited for during the configured time, and then given up', async () => {
    const server = await TestServer.start({ graceMs: 0 });
    const client = await connect({ url: server.url, token: server.token, resumeMs: 200 });
    const session = await client.open();
    const events = session.stream('print("ready", flush=True)\nwhile True: pass')[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ type: 'stdout' });
    await server[Symbol.asyncDispose]();
    const rest = (async () => {
      while (true) {
        const { value, done } = await events.next();
        if (done || value.type === 'result') return value;
      }
    })();
    const told = await rest.then(
      (result) => result?.type === 'result' && result.status,
      ({ code }) => code,
    );
    expect(['interrupted', 'SERVER_UNREACHABLE', 'SERVER_STOPPING']).toContain(told);
    await expect(session.run('1')).rejects.toMatchObject({ code: 'SERVER_UNREACHABLE' });
  });
});

describe('access', () => {
  it('errors have the server’s codes', async () => {
    const server = await sharedServer();
    await expect(connect({ url: server.url, token: `${server.token}x` })).rejects.toMatchObject({
      code: 'UNAUTHENTICATED',
    });
    await expect(connect({ url: server.url })).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    const admin = await connectTo(server, 'url');
    const { id } = await admin.sessions.create({ agentKey: agentKey() });
    const other = await connect({ url: server.url, token: await server.user('ann', 'member') });
    expect(other.me).toMatchObject({ userName: 'ann', role: 'member' });
    await expect(other.session(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(other.sessions.delete(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect((await other.sessions.list()).sessions).toEqual([]);
    const own = await other.open({ agentKey: 'mine' });
    await expect(own.tools.create('name: x')).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });

  it('ends with the token, even while following', async () => {
    const server = await sharedServer();
    const client = await connect({ url: server.url, token: await server.user('ben', 'member'), resumeMs: 1000 });
    const session = await client.open({ agentKey: 'followed' });
    const events = session.events()[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ seq: 1 });
    const { tokens } = (await server.call<{ tokens: { id: string }[] }>('GET /v1/tokens?user=ben')).json;
    for (const { id } of tokens) await server.call(`DELETE /v1/tokens/${id}`);
    await expect(session.run('1')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    await events.return?.();
  });
});

describe('nobody', () => {
  it('answers with SERVER_UNREACHABLE, at an address and at a socket', async () => {
    const server = await TestServer.start();
    const { url, token } = server;
    await server[Symbol.asyncDispose]();
    await expect(connect({ url, token })).rejects.toMatchObject({ code: 'SERVER_UNREACHABLE' });
    const socket = join(await scratchFolder(), 'daemon.sock');
    await expect(connect({ socket })).rejects.toMatchObject({ code: 'SERVER_UNREACHABLE' });
    await expect(connect({ url: 'nowhere' })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });
});

describe.each(['url', 'socket'] as const)('by %s', (way) => {
  it('creates, finds, changes and deletes sessions', async () => {
    const client = await connectTo(await sharedServer(), way);
    const labels = { suite: `sessions ${way}` };
    const first = await client.sessions.create({ agentKey: agentKey(), labels });
    const second = await client.sessions.create({ agentKey: agentKey(), labels });
    const page = await client.sessions.list({ labels, limit: 1 });
    expect(page.sessions.map(({ id }) => id)).toEqual([first.id]);
    const all = [];
    for await (const { id } of client.sessions.all({ labels, limit: 1 })) all.push(id);
    expect(all).toEqual([first.id, second.id]);
    expect(await client.sessions.update(first.id, { name: 'one' })).toMatchObject({ name: 'one' });
    await (await client.session(second.id)).destroy();
    await client.sessions.delete(first.id);
    await expect(client.sessions.get(first.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(client.session(second.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('uses the state of a session: checkpoints, forks, history, saving', async () => {
    const client = await connectTo(await sharedServer(), way);
    const session = await client.open({ agentKey: agentKey(), undo: 4 });
    await session.run('x = 1');
    const made = await session.checkpoint({ name: 'one' });
    expect(made).toMatchObject({ name: 'one', kind: 'live', automatic: false });
    await session.run('x = 2');
    const fork = await session.fork({ agentKey: agentKey() });
    expect((await session.restore('one')).checkpoint.id).toBe(made.id);
    expect((await session.run('x')).value).toBe(1);
    expect((await fork.run('x')).value).toBe(2);
    await session.deleteCheckpoint('one');
    expect(await session.checkpoints()).not.toContainEqual(expect.objectContaining({ name: 'one' }));
    await expect(session.restore('one')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    await session.run('x = 3');
    await session.undo();
    expect((await session.run('x')).value).toBe(1);
    await session.save();
    await session.hibernate();
    expect((await client.sessions.get(session.id)).state).toBe('hibernated');
    expect(await session.run('x')).toMatchObject({ value: 1, resumed: { restored: expect.arrayContaining(['x']) } });
    expect((await session.history()).map(({ code }) => code)).toContain('x = 3');
    expect(await session.isComplete('if x:')).toMatchObject({ status: 'incomplete' });
    await session.restart();
    expect(await session.variables()).toEqual([]);
  });

  it('uses the files of a session', async () => {
    const client = await connectTo(await sharedServer(), way);
    await using session = await client.open({ agentKey: agentKey() });
    await session.files.makeFolder('empty/inner');
    expect(await session.files.list('empty')).toMatchObject({ files: [{ name: 'inner', kind: 'folder' }], cut: false });
    expect(await session.files.write('a/text', 'from here')).toMatchObject({ name: 'text', size: 9 });
    await session.files.move('a/text', 'empty/inner/text');
    await session.run('open("empty/inner/text", "a").write(" and there")');
    const read = async () =>
      Buffer.concat(await collect(session.files.read('empty/inner/text', { offset: 5 }))).toString();
    expect(await read()).toBe('here and there');
    await expect(session.files.makeFolder('empty/inner/text')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await expect(session.files.delete('empty')).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    await session.files.delete('empty', { recursive: true });
    expect((await session.files.list()).files.map(({ name }) => name)).toEqual(['a']);
    await expect(read()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it.each(['session', 'user'])('uses the namespaces of a %s, with artifacts of any size', async (whose) => {
    const client = await connectTo(await sharedServer(), way);
    await using session = await client.open({ agentKey: agentKey() });
    const { tools, skills, artifacts, deps } = whose === 'session' ? session : client;
    async function* megabytes() {
      for (let n = 0; n < 8; n++) yield new Uint8Array(1_000_000).fill(n);
    }
    const type = 'bytes';
    const facts = { type, mediaType: 'application/x-test', description: 'd', metadata: { a: [1] } } satisfies Facts;
    expect(await artifacts.save('large', megabytes(), facts)).toMatchObject({ ...facts, size: 8_000_000 });
    expect(await artifacts.exists('large')).toBe(true);
    expect(await artifacts.exists('none')).toBe(false);
    const { info, chunks } = await artifacts.load('large');
    expect(info.metadata).toEqual({ a: [1] });
    let size = 0;
    for await (const chunk of chunks) size += chunk.byteLength;
    expect(size).toBe(8_000_000);
    expect((await session.run('len(artifacts.load("large"))')).value).toBe(8_000_000);
    await artifacts.delete('large');
    await expect(artifacts.get('large')).rejects.toMatchObject({ code: 'ARTIFACT_NOT_FOUND' });

    const skill = {
      name: `double_${way}_${whose}`,
      source: '"""Doubles."""\nasync def run(n: int) -> int:\n    return 2 * n\n',
    };
    expect(await skills.create(skill)).toMatchObject({ name: skill.name, description: 'Doubles.' });
    expect(await skills.get(skill.name)).toMatchObject({ source: expect.stringContaining('2 * n') });
    expect((await skills.search('doubles')).map(({ name }) => name)).toContain(skill.name);
    expect(await skills.problems()).toEqual([]);
    await skills.delete(skill.name);

    const yaml = `name: say_${way}_${whose}\ndescription: Says.\ncommand: [echo]\nschema:\n  positional:\n    - { name: words, required: true }\n`;
    const tool = await tools.create(yaml, { where: 'say.yaml' });
    expect((await tools.list()).map(({ name }) => name)).toContain(tool.name);
    expect(await tools.describe(tool.name)).toEqual(tool);
    expect(await session.tools.call(tool.name, { words: 'hello' })).toBe('hello\n');
    await expect(tools.create('name: 1', { where: 'bad.yaml' })).rejects.toMatchObject({
      code: 'TOOL_INVALID',
    });
    expect(await tools.problems()).toEqual([]);
    await tools.delete(tool.name);
    await expect(tools.delete(tool.name)).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });

    expect(await deps.list()).toEqual([]);
    expect(await deps.status()).toMatchObject({ requirements: [], installed: true });
  });

  it('returns output that went to a file as it arrives, and large values', async () => {
    const client = await connectTo(await sharedServer(), way);
    await using session = await client.open({ agentKey: agentKey() });
    const code = 'for n in range(2000): print("x" * 9_999)\nb"y" * 3_000_000';
    const events = await collect(session.stream(code));
    const text = events.reduce((size, event) => size + (event.type === 'stdout' ? event.text.length : 0), 0);
    expect(text).toBe(20_000_000);
    const { value, truncated } = resultOf(events);
    expect(value).toBeInstanceOf(Uint8Array);
    expect((value as Uint8Array).length).toBe(3_000_000);
    expect(truncated?.stdoutBytes).toBeGreaterThan(0);
  });

  it('ends followers of a deleted session', async () => {
    const client = await connectTo(await sharedServer(), way);
    const session = await client.open({ agentKey: agentKey() });
    await session.run('1');
    const types: string[] = [];
    for await (const event of session.events()) {
      types.push(event.type);
      if (event.type === 'result') await client.sessions.delete(session.id);
    }
    expect(types).toContain('result');
    await expect(session.events().next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('leaves no interrupt in the audit log if a reader stops with the result', async () => {
    const server = await sharedServer();
    const client = await connect({ url: server.url, token: server.token });
    const session = await client.open({ agentKey: agentKey() });
    for await (const { type } of session.stream('1 + 1')) if (type === 'result') break;
    await session.close();
    const { json } = await server.call<{ entries: { action: string }[] }>(
      `GET /v1/audit?session=${session.id}&limit=1000`,
    );
    const actions = json.entries.map(({ action }) => action);
    expect(actions).toContain('session.execute');
    expect(actions).not.toContain('session.interrupt');
  });

  it('leaves no listener on a signal that many executions share', async () => {
    const client = await connectTo(await sharedServer(), way);
    const session = await client.open({ agentKey: agentKey() });
    const { signal } = new AbortController();
    await Promise.all(['1', '2', '3'].map((code) => session.run(code, { signal })));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('closes only this client’s connection', async () => {
    const client = await connectTo(await sharedServer(), way);
    const session = await client.open({ agentKey: agentKey() });
    await session.run('x = 1');
    await session.close();
    await session.close();
    await expect(session.run('x')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    await expect(session.warmAgent('claude')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    expect(() => session.conversations()).toThrow(expect.objectContaining({ code: 'SESSION_CLOSED' }));
    expect((await (await client.session(session.id)).run('x')).value).toBe(1);
  });
});
