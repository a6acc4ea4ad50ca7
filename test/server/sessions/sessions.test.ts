/** Sessions of the server: made once for each key, there after a restart, and gone when they are deleted. */

import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { ChangeableSettings, SessionSettings } from '../../../src/protocol/session-info.ts';
import { execute } from '../../support/servers/executions.ts';
import {
  collect,
  logged,
  newPlace,
  next,
  numbersOf,
  openServerSession,
  openSessionManager,
  upTo,
  useRedis,
} from './session-managers.ts';

useRedis();

describe.each(['file', 'redis'] as const)('sessions in %s storage', (kind) => {
  test('a key exists once per owner, and conflicts with other options', async () => {
    const { manager } = await openSessionManager(await newPlace(kind));
    const wanted = { agentKey: 'risk', timeoutMs: 5000, labels: { team: 'a' } };
    const first = await manager.create('local', wanted);
    expect(first).toMatchObject({
      created: true,
      session: { ownerId: 'local', agentKey: 'risk', state: 'hibernated' },
    });
    const again = await manager.create('local', { ...wanted, sandbox: 'on', env: {} });
    expect(again).toMatchObject({ created: false, session: { id: first.session.id } });
    const conflict = { code: 'SESSION_CONFLICT', details: { session: first.session.id, options: ['timeoutMs'] } };
    await expect(manager.create('local', { ...wanted, timeoutMs: 1 })).rejects.toMatchObject(conflict);
    await expect(manager.create('local', { ...wanted, labels: { team: 'b' } })).rejects.toMatchObject({
      code: 'SESSION_CONFLICT',
    });
    const others = await manager.create('ann~000000000000', { agentKey: 'risk' });
    expect(others.session.id).not.toBe(first.session.id);
  });

  test('concurrent callers who create one key get the same session', async () => {
    const { manager } = await openSessionManager(await newPlace(kind));
    const made = await Promise.all(Array.from({ length: 20 }, () => manager.create('local', { agentKey: 'same' })));
    expect(new Set(made.map(({ session }) => session.id)).size).toBe(1);
    expect(made.filter(({ created }) => created)).toHaveLength(1);
    expect((await manager.list({})).sessions).toHaveLength(1);
  });

  test('options are checked as Session.open checks them', async () => {
    const { manager } = await openSessionManager(await newPlace(kind));
    const bad = [
      { cwd: 7 },
      { limits: { memoryMb: 1 } },
      { image: 'x' },
      { sandbox: 'off', limits: { memoryMb: 64 } },
      { storage: {} },
      { python: '/bin/sh' },
      { labels: { 'a b': '' } },
    ];
    for (const options of bad) {
      await expect(manager.create('local', options as object), JSON.stringify(options)).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
      });
    }
    expect((await manager.list({})).sessions).toEqual([]);
  });

  test('are listed in pages, by key, label, state and owner', async () => {
    const { manager } = await openSessionManager(await newPlace(kind));
    for (const number of upTo(7)) {
      const owner = number === 7 ? 'ann~000000000000' : 'local';
      await manager.create(owner, { agentKey: `k${number}`, labels: { odd: String(number % 2) } });
    }
    const pages: string[][] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await manager.list({ limit: 3, ...(cursor === undefined ? {} : { cursor }) });
      pages.push(page.sessions.map(({ agentKey }) => agentKey));
      cursor = page.next;
      if (cursor === undefined) break;
    }
    expect(pages.map(({ length }) => length)).toEqual([3, 3, 1]);
    expect(pages.flat().toSorted()).toEqual(upTo(7).map((number) => `k${number}`));
    const keysOf = async (...query: Parameters<typeof manager.list>) =>
      (await manager.list(...query)).sessions.map(({ agentKey }) => agentKey).toSorted();
    expect(await keysOf({ labels: { odd: '1' } })).toEqual(['k1', 'k3', 'k5', 'k7']);
    expect(await keysOf({ agentKey: 'k2' })).toEqual(['k2']);
    expect(await keysOf({}, ({ ownerId }) => ownerId !== 'local')).toEqual(['k7']);
    const serverSession = await manager.open((await manager.find('local', 'k4'))?.id ?? '');
    await execute(serverSession, 'x = 1');
    expect(await keysOf({ state: 'idle' })).toEqual(['k4']);
    expect(await manager.find('local', 'k7')).toBeUndefined();
  });

  test('an unknown id is NOT_FOUND, whatever it looks like', async () => {
    const { manager } = await openSessionManager(await newPlace(kind));
    for (const id of ['ses_0000000000000000', '', '../x', 'x'.repeat(2000), 'a b\0']) {
      await expect(manager.get(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await expect(manager.open(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
      await expect(manager.delete(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
  });

  test('an update changes name, labels and settings, and keeps variables', async () => {
    const { manager, serverSession } = await openServerSession(await newPlace(kind), { agentKey: 'u', name: 'one' });
    await execute(serverSession, 'x = 41');
    const changed = await manager.update(serverSession.id, {
      name: null,
      labels: { a: 'b' },
      env: { WHO: 'me' },
      timeoutMs: 9,
    });
    expect(changed).toMatchObject({ labels: { a: 'b' }, settings: { env: { WHO: 'me' }, timeoutMs: 9 } });
    expect(changed.name).toBeUndefined();
    await manager.update(serverSession.id, { timeoutMs: 0 });
    const { result } = await execute(serverSession, "import os; [x + 1, os.environ['WHO']]");
    expect(result.value).toEqual([42, 'me']);
    const lasting = Object.keys(SessionSettings.shape).filter((option) => !(option in ChangeableSettings.shape));
    expect(lasting).toEqual(expect.arrayContaining(['cwd', 'executor', 'sandbox', 'image']));
    for (const option of ['agentKey', 'ownerId', 'storage', ...lasting]) {
      const refused = manager.update(serverSession.id, { [option]: 'off' });
      await expect(refused, option).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    expect((await manager.get(serverSession.id)).settings).toEqual({ ...changed.settings, timeoutMs: 0 });
  });

  test('an update ends no running code, and applies from the next cell on', async () => {
    const { manager, serverSession } = await openServerSession(await newPlace(kind), { agentKey: 'u' });
    const running = execute(serverSession, "print('on', flush=True); input(); 'done'");
    const { id } = await next(serverSession, 'input_request');
    await manager.update(serverSession.id, { env: { WHO: 'me' } });
    expect(await (await serverSession.api()).history()).toEqual([]);
    await serverSession.answerInput(id, '');
    expect((await running).result.value).toBe('done');
    expect((await execute(serverSession, "import os; os.environ['WHO']")).result.value).toBe('me');
  });

  test('after a restart every session exists, and continues', async () => {
    const place = await newPlace(kind);
    const before = await openSessionManager(place);
    for (const key of ['a', 'b']) {
      const { session } = await before.manager.create('local', { agentKey: key, labels: { key } });
      await execute(await before.manager.open(session.id), `me = '${key}'`);
    }
    await before.end();
    const { manager } = await openSessionManager(place);
    const { sessions } = await manager.list({});
    expect(sessions.map(({ agentKey, state }) => [agentKey, state]).toSorted()).toEqual([
      ['a', 'hibernated'],
      ['b', 'hibernated'],
    ]);
    for (const { id, agentKey } of sessions) {
      const serverSession = await manager.open(id);
      const { last } = await serverSession.position();
      const { result, firstSeq } = await execute(serverSession, 'me');
      expect(result).toMatchObject({ value: agentKey, resumed: { lost: [] } });
      expect(firstSeq).toBe(last + 1);
      const events = await logged(serverSession);
      expect(numbersOf(events)).toEqual(upTo(events.length));
    }
  });

  test('an idle kernel is hibernated, and the next call resumes it', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind), {}, { idleMs: 50 });
    await execute(serverSession, 'x = 5');
    const slept = await next(serverSession, 'session_state', 1);
    expect(slept.change).toBe('hibernated');
    expect(serverSession.info().state).toBe('hibernated');
    expect((await execute(serverSession, 'x')).result).toMatchObject({ value: 5, resumed: { lost: [] } });
  });

  test('an unused session is closed in memory after a while, and opened again when needed', async () => {
    const options = { sweepEveryMs: 20, closeAfterMs: 100 };
    const { manager, serverSession, storage } = await openServerSession(
      await newPlace(kind),
      { agentKey: 'unused' },
      options,
    );
    const isHeld = async () => (await storage.locks.ownerOf('unused')) !== undefined;
    await execute(serverSession, 'x = 5');
    const api = await serverSession.api();
    const reading = new AbortController();
    const events = serverSession.events({ after: (await serverSession.position()).last, signal: reading.signal });
    const read = (async () => {
      for await (const event of events) if (event.type === 'session_state') return event.change;
      return undefined;
    })();
    await api.hibernate();
    expect(await read).toBe('hibernated');
    reading.abort();
    await expect.poll(isHeld).toBe(false);
    expect((await manager.list({})).sessions).toMatchObject([{ id: serverSession.id, state: 'hibernated' }]);
    // Of many that come together, while it may be closed again, none is refused.
    for (let round = 0; round < 5; round += 1) {
      const opened = await Promise.all(upTo(5).map(() => manager.open(serverSession.id)));
      for (const one of opened) expect(await one.position()).toMatchObject({ trimmedThrough: 0 });
      await expect.poll(isHeld).toBe(false);
    }
    const again = await manager.open(serverSession.id);
    expect((await execute(again, 'x')).result).toMatchObject({ value: 5, resumed: { lost: [] } });
    expect(await isHeld()).toBe(true);
  });

  test('more sessions than kernels can all keep their variables', async () => {
    const { manager } = await openSessionManager(await newPlace(kind), { pool: { maxKernels: 2 } });
    const open = async (key: number) =>
      manager.open((await manager.create('local', { agentKey: `n${key}` })).session.id);
    const all = await Promise.all(upTo(6).map(open));
    await Promise.all(all.map((serverSession, index) => execute(serverSession, `mine = ${index}`)));
    for (const [index, serverSession] of all.entries())
      expect((await execute(serverSession, 'mine')).result.value).toBe(index);
    expect((await manager.metrics()).pool.live).toBeLessThanOrEqual(2);
  });

  test('a fork has the same memory, is its own session, and survives a restart', async () => {
    const place = await newPlace(kind);
    const { manager, serverSession, end } = await openServerSession(place, { agentKey: 'parent', labels: { a: 'b' } });
    await execute(serverSession, "x = [1]\nopen('shared.txt', 'w').write('here')");
    const fork = await manager.fork(serverSession.id, 'local', { agentKey: 'child', name: 'fork' });
    expect(fork).toMatchObject({ agentKey: 'child', name: 'fork', forkOf: serverSession.id });
    const child = await manager.open(fork.id);
    expect((await execute(child, "x.append(2); [x, open('shared.txt').read()]")).result.value).toEqual([
      [1, 2],
      'here',
    ]);
    expect((await execute(serverSession, 'x')).result.value).toEqual([1]);
    await expect(manager.fork(serverSession.id, 'local', { agentKey: 'child' })).rejects.toMatchObject({
      code: 'SESSION_CONFLICT',
    });
    await expect(manager.delete(serverSession.id)).rejects.toMatchObject({
      code: 'SESSION_CONFLICT',
      details: { forks: [fork.id] },
    });
    await end();
    const { manager: later } = await openSessionManager(place);
    expect((await execute(await later.open(fork.id), 'x')).result.value).toEqual([1, 2]);
    await later.delete(fork.id);
    await later.delete(serverSession.id);
    expect((await later.list({})).sessions).toEqual([]);
  });

  test('delete removes everything: kernel, workspace, events, checkpoints, files, requests and the session', async () => {
    const place = await newPlace(kind);
    const options = { limits: { eventBytes: 1024, inlineBytes: 2048 } };
    const { manager, serverSession, storage } = await openServerSession(place, { agentKey: 'gone' }, options);
    await execute(serverSession, "open('f', 'w').write('x'); print('y' * 9000)", { idempotencyKey: 'k' });
    await (await serverSession.api()).checkpoint({ name: 'c', durable: true });
    const { pid } = await serverSession.session();
    expect(readdirSync(join(place.dataDir, 'outputs', serverSession.id)).length).toBeGreaterThan(0);
    expect(readdirSync(join(place.dataDir, 'agents'))).toHaveLength(1);
    const reader = collect(serverSession.events());
    const { last } = await serverSession.position();
    const running = execute(serverSession, "print('on', flush=True)\nwhile True: pass");
    // What is told as started may still wait for its kernel.
    await next(serverSession, 'stdout', last);
    await manager.delete(serverSession.id);
    expect((await reader).at(-1)).toMatchObject({ type: 'session_state', change: 'deleted' });
    expect((await running).result.status).toBe('interrupted');
    await expect(manager.get(serverSession.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(execute(serverSession, '1')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    // The process is reaped by its parent a moment after the connection is gone.
    await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
    expect(readdirSync(join(place.dataDir, 'agents'))).toEqual([]);
    expect(existsSync(join(place.dataDir, 'outputs', serverSession.id))).toBe(false);
    expect(await storage.events.last('gone')).toBe(0);
    expect(await storage.checkpoints.list('gone')).toEqual([]);
    expect(await storage.records.get('gone')).toBeUndefined();
    for (const collection of ['sessions', 'session-keys', 'idempotency', 'session-marks']) {
      expect((await storage.documents.list(collection)).documents, collection).toEqual([]);
    }
    const { session, created } = await manager.create('local', { agentKey: 'gone' });
    expect(created).toBe(true);
    expect((await execute(await manager.open(session.id), "'x' in globals()")).result.value).toBe(false);
  });

  test('a delete that was cut short is finished at the next start', async () => {
    const place = await newPlace(kind);
    const { serverSession, end } = await openServerSession(place, { agentKey: 'half' });
    await execute(serverSession, 'x = 1');
    await end();
    const storage = await place.open();
    const document = await storage.documents.get('sessions', serverSession.id);
    await storage.documents.put('sessions', serverSession.id, { ...(document?.value as object), life: 'deleting' });
    await storage.close();
    const { manager, storage: later } = await openSessionManager(place);
    await expect(manager.get(serverSession.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    // In the background: nobody waits for it.
    const sessions = async () => (await later.documents.list('sessions')).documents;
    await vi.waitFor(async () => expect(await sessions()).toEqual([]), 20_000);
    expect(await later.events.last('half')).toBe(0);
    expect(readdirSync(join(place.dataDir, 'agents'))).toEqual([]);
  });

  test('one of two servers owns a session; the other gets an error, and takes over when the first has ended', async () => {
    const place = await newPlace(kind);
    const first = await openServerSession(place, { agentKey: 'one owner' });
    await execute(first.serverSession, 'x = 1');
    const { manager } = await openSessionManager(place);
    expect((await manager.get(first.serverSession.id)).agentKey).toBe('one owner');
    const elsewhere = { code: 'SESSION_ELSEWHERE', details: { pid: process.pid } };
    await expect(manager.open(first.serverSession.id)).rejects.toMatchObject(elsewhere);
    await expect(manager.delete(first.serverSession.id)).rejects.toMatchObject(elsewhere);
    const { last } = await first.serverSession.position();
    await first.end();
    const taken = await manager.open(first.serverSession.id);
    expect((await execute(taken, 'x')).result.value).toBe(1);
    expect(numbersOf(await logged(taken)).slice(0, last + 1)).toEqual(upTo(last + 1));
  });

  test('keys of different users never collide', async () => {
    const { manager, storage } = await openSessionManager(await newPlace(kind));
    const mine = await manager.open((await manager.create('local', { agentKey: 'k' })).session.id);
    const theirs = await manager.open((await manager.create('ann~000000000000', { agentKey: 'k' })).session.id);
    await execute(mine, 'x = 1');
    expect((await execute(theirs, "'x' in globals()")).result.value).toBe(false);
    expect(await storage.events.last('k')).toBeGreaterThan(0);
    expect(await storage.events.last('~ann~000000000000/k')).toBeGreaterThan(0);
  });
});

describe('a server that shuts down', () => {
  test('lets running code finish, refuses new work, and notifies readers', async () => {
    const place = await newPlace('file');
    const { manager, serverSession } = await openServerSession(place);
    const { cwd } = await serverSession.session();
    const wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)";
    const running = execute(serverSession, `print('on', flush=True)\n${wait}\nx = 7`);
    await next(serverSession, 'stdout');
    const waiting = execute(serverSession, 'y = 1');
    waiting.catch(() => {});
    const reader = collect(serverSession.events());
    reader.catch(() => {});
    const draining = manager.drain(30_000);
    const stopping = { code: 'SERVER_STOPPING' };
    await expect(execute(serverSession, '1')).rejects.toMatchObject(stopping);
    await expect(manager.create('local', { agentKey: 'new' })).rejects.toMatchObject(stopping);
    writeFileSync(join(cwd, 'go'), '');
    expect((await running).result.status).toBe('ok');
    await expect(waiting).rejects.toMatchObject(stopping);
    await draining;
    await expect(reader).rejects.toMatchObject(stopping);
    const { manager: later } = await openSessionManager(place);
    expect((await execute(await later.open(serverSession.id), 'x')).result.value).toBe(7);
  });

  test.each([0, 30_000])(
    'leaves nothing open that was being created, with a grace period of %i ms',
    async (graceMs) => {
      const { manager, serverSession, storage } = await openServerSession(await newPlace('file'));
      await execute(serverSession, 'x = 1');
      const keys = upTo(5).map((number) => `made ${number}`);
      const making = Promise.allSettled([
        ...keys.map((agentKey) => manager.create('local', { agentKey })),
        manager.fork(serverSession.id, 'local', { agentKey: 'forked' }),
      ]);
      await manager.drain(graceMs);
      for (const made of await making) {
        if (made.status === 'rejected') expect(made.reason).toMatchObject({ code: 'SERVER_STOPPING' });
      }
      for (const key of [...keys, 'forked']) expect(await storage.locks.ownerOf(key)).toBeUndefined();
    },
  );

  test('interrupts code after the grace period, and its result says so', async () => {
    const place = await newPlace('file');
    const { manager, serverSession } = await openServerSession(place);
    const running = execute(serverSession, "print('go', flush=True)\nwhile True: pass");
    await next(serverSession, 'stdout');
    await manager.drain(1);
    expect((await running).result.status).toBe('interrupted');
    const { manager: later } = await openSessionManager(place);
    const events = await logged(await later.open(serverSession.id));
    expect(events.filter(({ type }) => type === 'interrupted')).toEqual([]);
    expect(events.filter(({ type }) => type === 'result')).toHaveLength(1);
  });
});
