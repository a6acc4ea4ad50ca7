/** Executions and their events: numbered without a gap, durable, read from any number on, each once. */

import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { resultFromWire } from '../../../src/protocol/execution-events.ts';
import type { SessionEvent } from '../../../src/protocol/session-events.ts';
import { execute, start } from '../../support/servers/executions.ts';
import {
  collect,
  isEvent,
  logged,
  newPlace,
  next,
  numbersOf,
  openServerSession,
  openSessionManager,
  textOf,
  until,
  upTo,
  useRedis,
} from './session-managers.ts';

useRedis();

const ofExecution = (events: readonly SessionEvent[], execution: string) =>
  events.filter((event) => 'execution' in event && event.execution === execution);

describe.each(['file', 'redis'] as const)('executions in %s storage', (kind) => {
  test('are in the log from start to end, with the same result', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const { execution, firstSeq, result } = await execute(
      serverSession,
      "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay({'a': 1})\n[2**70, b'x', float('nan'), None]",
      { by: 'ann', transaction: 'commit_on_success', timeoutMs: 60_000 },
    );
    const events = await logged(serverSession, firstSeq - 1);
    expect(numbersOf(events)).toEqual(upTo(firstSeq + events.length - 1, firstSeq));
    expect(events[0]).toMatchObject({ type: 'execution_started', execution, by: 'ann', timeoutMs: 60_000 });
    expect(textOf(events)).toBe('out\n');
    expect(textOf(events, 'stderr')).toBe('err\n');
    expect(events.filter(({ type }) => type === 'display')).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: 'result', execution, status: 'ok', transaction: 'committed' });
    expect(result).toMatchObject({ stdout: 'out\n', stderr: 'err\n', status: 'ok' });
    expect(resultFromWire(result).value).toEqual([2n ** 70n, new Uint8Array([120]), Number.NaN, null]);
  });

  test('run one at a time in order, and too many are refused at once', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind), { queueLimit: 3 });
    const all = upTo(4).map((number) => execute(serverSession, `print(${number}, flush=True)`));
    await expect(execute(serverSession, '5')).rejects.toMatchObject({ code: 'KERNEL_BUSY' });
    await Promise.all(all);
    const events = await logged(serverSession);
    expect(textOf(events)).toBe('1\n2\n3\n4\n');
    const order = events
      .filter(({ type }) => type === 'execution_started' || type === 'result')
      .map(({ type }) => type);
    expect(order).toEqual(upTo(4).flatMap(() => ['execution_started', 'result']));
  });

  test('errors of the code are results; executions that never began are reported and not in the log', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    expect((await execute(serverSession, '1/0')).result).toMatchObject({
      status: 'error',
      error: { name: 'ZeroDivisionError' },
    });
    const { last } = await serverSession.position();
    const gone = new AbortController();
    gone.abort();
    await expect(execute(serverSession, 'x = 1', { signal: gone.signal })).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await serverSession.position()).last).toBe(last);
  });

  test('executions without a result are reported as failed, once', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    await execute(serverSession, 'x = 1', { transaction: 'explicit' });
    await expect(execute(serverSession, 'x = 2')).rejects.toMatchObject({ code: 'TRANSACTION_OPEN' });
    const events = await logged(serverSession);
    expect(events.at(-1)).toMatchObject({ type: 'execution_failed', error: { code: 'TRANSACTION_OPEN' } });
    await (await serverSession.api()).rollback();
    expect((await execute(serverSession, "'x' in globals()")).result.value).toBe(false);
  });

  test('a caller who disconnects stops the code only on request', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const stop = new AbortController();
    const running = execute(serverSession, "print('on', flush=True)\nwhile True: pass", { signal: stop.signal });
    await next(serverSession, 'stdout');
    stop.abort();
    expect((await running).result.status).toBe('interrupted');
    const reader = new AbortController();
    const { execution, firstSeq, outcome } = await start(serverSession, "import time; time.sleep(0.1); print('done')");
    reader.abort();
    expect(await collect(serverSession.events({ after: firstSeq - 1, execution, signal: reader.signal }))).toEqual([]);
    expect((await outcome).stdout).toBe('done\n');
  });

  test('interrupt stops running code', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    expect(await serverSession.interrupt()).toBe(false);
    const running = execute(serverSession, "print('on', flush=True)\nwhile True: pass");
    await next(serverSession, 'stdout');
    expect(await serverSession.interrupt()).toBe(true);
    expect((await running).result.status).toBe('interrupted');
  });

  test('the first of two answers to one input wins, and the other is refused', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const running = execute(serverSession, "name = input('who? ')\nname");
    const request = await next(serverSession, 'input_request');
    expect(request).toMatchObject({ prompt: 'who? ', password: false });
    const answers = await Promise.allSettled([
      serverSession.answerInput(request.id, 'ann', { by: 'a' }),
      serverSession.answerInput(request.id, 'bob', { by: 'b' }),
      serverSession.cancelInput(request.id, { by: 'c' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    for (const answer of answers.slice(1)) expect(answer).toMatchObject({ reason: { code: 'INPUT_NOT_PENDING' } });
    expect((await running).result.value).toBe('ann');
    const events = await logged(serverSession);
    const told = events.filter(({ type }) => type === 'input_answered');
    expect(told).toMatchObject([{ id: request.id, outcome: 'answered', by: 'a' }]);
    expect(JSON.stringify(told)).not.toContain('ann');
  });

  test('an unanswered input is logged as such, and so is a cancelled one', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const late = await execute(serverSession, 'input()', { inputTimeoutMs: 20 });
    expect(late.result).toMatchObject({ status: 'error', error: { name: 'EOFError' } });
    expect((await logged(serverSession)).filter(({ type }) => type === 'input_answered')).toMatchObject([
      { outcome: 'unanswered' },
    ]);
    const running = execute(serverSession, 'input()');
    const { id } = await next(serverSession, 'input_request', (await serverSession.position()).last);
    await serverSession.cancelInput(id, { reason: 'not today' });
    expect((await running).result.error?.message).toContain('not today');
    await expect(serverSession.answerInput(id, 'x')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
  });

  test('a reader from any number gets the later events and then new ones, each once', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    for (const number of upTo(5)) await execute(serverSession, `print(${number})`);
    const { last } = await serverSession.position();
    const stop = new AbortController();
    const readers = [0, 1, 7, last].map((after) => collect(serverSession.events({ after, signal: stop.signal })));
    await execute(serverSession, 'for n in range(300): print(n, flush=True)');
    const { last: end } = await serverSession.position();
    await until(
      async () => (await serverSession.position()).last,
      (now) => now >= end,
    );
    await delay(0);
    stop.abort();
    for (const [index, reader] of readers.entries()) {
      const seen = numbersOf((await reader).filter(isEvent));
      expect(seen).toEqual(upTo(seen.at(-1) ?? 0, [1, 2, 8, last + 1][index]));
    }
    const bad = collect(serverSession.events({ after: end + 1000 }));
    await expect(bad).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  test('the events of one execution end with it, also long afterwards', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const { execution, firstSeq } = await start(serverSession, "print('a')\nprint('b')");
    const live = await collect(serverSession.events({ after: firstSeq - 1, execution }));
    await execute(serverSession, '1');
    const later = await collect(serverSession.events({ after: firstSeq - 1, execution }));
    expect(later).toEqual(live);
    expect(live.map(({ type }) => type).filter((type) => type !== 'stdout')).toEqual(['execution_started', 'result']);
    expect(await collect(serverSession.events({ execution: 'exe_0000000000000000' }))).toEqual([]);
  });

  test('output of a thread after its cell has the execution that started it, whatever runs meanwhile', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    await execute(serverSession, 'import threading\ngo = threading.Event()');
    const work = 'def work():\n    go.wait()\n    print("late")\n    display("shown")\n';
    const { execution } = await execute(serverSession, `${work}thread = threading.Thread(target=work)\nthread.start()`);
    const other = await execute(serverSession, 'print("mine")\ngo.set()\nthread.join()');
    expect(other.result).toMatchObject({ stdout: 'mine\n', displays: [] });
    const late = { execution, background: true, number: 2 };
    expect(await next(serverSession, 'display')).toMatchObject(late);
    const texts = serverSession.events();
    for await (const item of texts)
      if (item.type === 'stdout' && item.background) {
        expect(item).toMatchObject({ text: 'late\n', ...late });
        break;
      }
    const own = await collect(serverSession.events({ execution: other.execution }));
    expect(own.map(({ type }) => type)).toEqual(['execution_started', 'stdout', 'result']);
  });

  test('an automatic save is logged', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind), { saveAfterMs: 10 });
    await execute(serverSession, 'x = 1');
    expect(await next(serverSession, 'saved')).toMatchObject({ lost: [], checkpoint: expect.any(String) });
  });

  test('data that is too large for an event is in a file, completely', async () => {
    const options = { limits: { eventBytes: 2048, inlineBytes: 20_000 } };
    const { serverSession } = await openServerSession(await newPlace(kind), {}, options);
    const code = "for n in range(3000): print('%06d' % n, flush=n % 10 == 0)\ndisplay('d' * 5000)\nlist(range(2000))";
    const { result, execution, firstSeq } = await execute(serverSession, code);
    const events = ofExecution(await logged(serverSession, firstSeq - 1), execution);
    const moved = events.filter((event) => event.type === 'output_file');
    expect(moved).toHaveLength(1);
    const read = async (file: string, offset = 0) => {
      const parts: Uint8Array[] = [];
      for await (const part of (await serverSession.openOutput(file)).read({ offset })) parts.push(part);
      return Buffer.concat(parts).toString();
    };
    const file = moved[0]?.file.file ?? '';
    const whole = upTo(2999, 0)
      .map((number) => `${String(number).padStart(6, '0')}\n`)
      .join('');
    expect(textOf(events) + (await read(file))).toBe(whole);
    expect(await read(file, 7)).toBe((await read(file)).slice(7));
    const display = events.find((event) => event.type === 'display');
    expect(JSON.parse(await read(display?.file?.file ?? ''))).toMatchObject({
      'text/plain': expect.stringContaining('ddd'),
    });
    const ending = events.at(-1);
    expect(ending).toMatchObject({ type: 'result', status: 'ok' });
    const values = ending?.type === 'result' ? JSON.parse(await read(ending.file?.file ?? '')) : undefined;
    expect(values.value).toEqual(upTo(1999, 0));
    expect(result).toMatchObject({ value: upTo(1999, 0), stdout: whole });
    expect(result.files).toHaveLength(2);
    for (const event of events) expect(JSON.stringify(event).length).toBeLessThan(8192);
    for (const bad of ['../../cella.db', 'out_0000000000000000.txt', '']) {
      await expect(serverSession.openOutput(bad)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
  });

  test('every other change of a session is logged', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind), { undo: 2 });
    const api = await serverSession.api();
    expect((await api.run("print('in'); 7")).value).toBe(7);
    const { id } = await api.checkpoint({ name: 'c' });
    await api.restore('c');
    await api.deleteCheckpoint(id);
    await api.run('y = 1');
    await api.undo();
    await api.reset();
    await api.restart();
    await api.hibernate();
    const seen: string[] = [];
    for await (const event of api.stream("print('s')")) seen.push(event.type);
    expect(seen).toEqual(['stdout', 'result']);
    expect(await api.run('input()', { onInput: () => 'typed' })).toMatchObject({ value: 'typed' });
    expect((await api.run('input()')).error).toMatchObject({ name: 'EOFError' });
    expect((await api.variables()).length).toBeGreaterThanOrEqual(0);
    const events = await logged(serverSession);
    const changes = events.flatMap((event) => (event.type === 'session_state' ? [event.change] : []));
    expect(changes).toEqual([
      'created',
      'checkpoint_made',
      'checkpoint_restored',
      'checkpoint_deleted',
      'undone',
      'reset',
      'restarted',
      'hibernated',
    ]);
    expect(events.filter(({ type }) => type === 'result')).toHaveLength(5);
  });

  test('retention trims by size and by age, reports what is gone, and never while code runs', async () => {
    const retention = { maxBytes: 20_000, maxAgeMs: 0, maxFileBytes: 4000 };
    const opened = await openServerSession(await newPlace(kind), {}, { retention, sweepEveryMs: 20 });
    const serverSession = await opened.manager.open(opened.serverSession.id);
    const running = await start(serverSession, "for n in range(100): print('x' * 900, flush=True)\ninput()");
    const { id } = await next(serverSession, 'input_request');
    const { last } = await serverSession.position();
    const order: string[] = [];
    const trimmed = serverSession.applyRetention().then(() => order.push('trimmed'));
    const ended = running.outcome.then(() => order.push('ended'));
    expect((await serverSession.position()).trimmedThrough).toBe(0);
    await serverSession.answerInput(id, '');
    await Promise.all([trimmed, ended]);
    expect(order).toEqual(['ended', 'trimmed']);
    await until(
      async () => (await serverSession.position()).trimmedThrough,
      (trimmedThrough) => trimmedThrough > 0,
    );
    await execute(serverSession, "print('after')");
    const { trimmedThrough } = await serverSession.position();
    const stop = new AbortController();
    const items: unknown[] = [];
    for await (const item of serverSession.events({ signal: stop.signal })) {
      items.push(item);
      if (item.type === 'stdout' && item.text === 'after\n') break;
    }
    expect(items[0]).toMatchObject({ type: 'trimmed', throughSeq: expect.any(Number) });
    expect(trimmedThrough).toBeGreaterThan(0);
    expect(trimmedThrough).toBeLessThanOrEqual(last + 10);
    const seqs = items.slice(1).map((item) => (item as SessionEvent).seq);
    expect(seqs).toEqual(upTo(seqs.at(-1) ?? 0, (items[0] as { throughSeq: number }).throughSeq + 1));
  });

  test('retention by age removes all old events, and numbers continue', async () => {
    const { serverSession, manager } = await openServerSession(
      await newPlace(kind),
      {},
      { retention: { maxAgeMs: 1 }, sweepEveryMs: 20 },
    );
    await execute(serverSession, '1');
    const { last } = await serverSession.position();
    await until(
      async () => (await serverSession.position()).trimmedThrough,
      (trimmedThrough) => trimmedThrough >= last,
    );
    expect((await execute(serverSession, '2')).firstSeq).toBeGreaterThan(last);
    expect((await manager.metrics()).executions).toMatchObject({ ok: 2 });
  });
});

describe.each(['file', 'redis'] as const)('an Idempotency-Key in %s storage', (kind) => {
  test('makes concurrent retries join the running execution', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    await execute(serverSession, 'runs = 0');
    const code = 'import time; time.sleep(0.1); runs += 1; runs';
    const all = await Promise.all(upTo(10).map(() => execute(serverSession, code, { idempotencyKey: 'k' })));
    expect(new Set(all.map(({ execution }) => execution)).size).toBe(1);
    expect(all.map(({ result }) => result.value)).toEqual(upTo(10).map(() => 1));
    expect(all.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect((await execute(serverSession, 'runs')).result.value).toBe(1);
  });

  test('returns the same result to a later retry, also after a restart, and large ones too', async () => {
    const place = await newPlace(kind);
    const { serverSession, end } = await openServerSession(place);
    const first = await execute(serverSession, "n = 1; print('hi'); 2**80", { idempotencyKey: 'small' });
    const large = await execute(serverSession, "print('z' * 900_000)", { idempotencyKey: 'large' });
    const failing = execute(serverSession, 'n = 5', { idempotencyKey: 'failing', transaction: 'explicit' });
    await failing;
    await expect(execute(serverSession, '1', { idempotencyKey: 'refused' })).rejects.toMatchObject({
      code: 'TRANSACTION_OPEN',
    });
    await end();
    const { manager } = await openSessionManager(place);
    const later = await manager.open(serverSession.id);
    const { last } = await later.position();
    expect(await execute(later, "n = 1; print('hi'); 2**80", { idempotencyKey: 'small' })).toEqual({
      ...first,
      replayed: true,
    });
    expect((await execute(later, "print('z' * 900_000)", { idempotencyKey: 'large' })).result).toEqual(large.result);
    await expect(execute(later, '1', { idempotencyKey: 'refused' })).rejects.toMatchObject({
      code: 'TRANSACTION_OPEN',
    });
    const started = await start(later, "n = 1; print('hi'); 2**80", { idempotencyKey: 'small' });
    expect(started).toMatchObject({ replayed: true, firstSeq: first.firstSeq });
    expect((await later.position()).last).toBe(last);
  });

  test('is refused for another request', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    await execute(serverSession, '1', { idempotencyKey: 'k' });
    await expect(execute(serverSession, '2', { idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
    });
    await expect(execute(serverSession, '1', { idempotencyKey: 'k', timeoutMs: 5 })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
    });
  });

  test('is kept for a limited time, and in limited number', async () => {
    const options = { requests: { maxAgeMs: 86_400_000, maxCount: 3 }, sweepEveryMs: 20 };
    const { serverSession, storage } = await openServerSession(await newPlace(kind), {}, options);
    for (const number of upTo(8)) await execute(serverSession, `${number}`, { idempotencyKey: `k${number}` });
    const kept = await until(
      async () => (await storage.documents.list('idempotency')).documents.length,
      (count) => count === 3,
    );
    expect(kept).toBe(3);
    const { last } = await serverSession.position();
    await execute(serverSession, '8', { idempotencyKey: 'k8' });
    expect((await serverSession.position()).last).toBe(last);
    const short = await openServerSession(await newPlace(kind), {}, { requests: { maxAgeMs: 0 } });
    const [one, two] = [
      await execute(short.serverSession, '1', { idempotencyKey: 'k' }),
      await execute(short.serverSession, '1', { idempotencyKey: 'k' }),
    ];
    expect(two.execution).not.toBe(one.execution);
  });
});
