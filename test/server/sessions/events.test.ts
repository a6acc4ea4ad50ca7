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
  openHost,
  openHosted,
  textOf,
  until,
  upTo,
  useRedis,
} from './session-hosts.ts';

useRedis();

const ofExecution = (events: readonly SessionEvent[], execution: string) =>
  events.filter((event) => 'execution' in event && event.execution === execution);

describe.each(['file', 'redis'] as const)('executions in %s storage', (kind) => {
  test('are in the log from their beginning to their one ending, and the result says the same', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    const { execution, firstSeq, result } = await execute(
      hosted,
      "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay({'a': 1})\n[2**70, b'x', float('nan'), None]",
      { by: 'ann', transaction: 'commit_on_success', timeoutMs: 60_000 },
    );
    const events = await logged(hosted, firstSeq - 1);
    expect(numbersOf(events)).toEqual(upTo(firstSeq + events.length - 1, firstSeq));
    expect(events[0]).toMatchObject({ type: 'execution_started', execution, by: 'ann', timeoutMs: 60_000 });
    expect(textOf(events)).toBe('out\n');
    expect(textOf(events, 'stderr')).toBe('err\n');
    expect(events.filter(({ type }) => type === 'display')).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: 'result', execution, status: 'ok', transaction: 'committed' });
    expect(result).toMatchObject({ stdout: 'out\n', stderr: 'err\n', status: 'ok' });
    expect(resultFromWire(result).value).toEqual([2n ** 70n, new Uint8Array([120]), Number.NaN, null]);
  });

  test('run one at a time in the order they came, and too many are refused at once', async () => {
    const { hosted } = await openHosted(await newPlace(kind), { queueLimit: 3 });
    const all = upTo(4).map((number) => execute(hosted, `print(${number}, flush=True)`));
    await expect(execute(hosted, '5')).rejects.toMatchObject({ code: 'KERNEL_BUSY' });
    await Promise.all(all);
    const events = await logged(hosted);
    expect(textOf(events)).toBe('1\n2\n3\n4\n');
    const order = events
      .filter(({ type }) => type === 'execution_started' || type === 'result')
      .map(({ type }) => type);
    expect(order).toEqual(upTo(4).flatMap(() => ['execution_started', 'result']));
  });

  test('errors of the code are results; what never began is told and not in the log', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    expect((await execute(hosted, '1/0')).result).toMatchObject({
      status: 'error',
      error: { name: 'ZeroDivisionError' },
    });
    const { last } = await hosted.position();
    const gone = new AbortController();
    gone.abort();
    await expect(execute(hosted, 'x = 1', { signal: gone.signal })).rejects.toMatchObject({ code: 'ABORTED' });
    expect((await hosted.position()).last).toBe(last);
  });

  test('what began and has no result is told as failed, once', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    await execute(hosted, 'x = 1', { transaction: 'explicit' });
    await expect(execute(hosted, 'x = 2')).rejects.toMatchObject({ code: 'TRANSACTION_OPEN' });
    const events = await logged(hosted);
    expect(events.at(-1)).toMatchObject({ type: 'execution_failed', error: { code: 'TRANSACTION_OPEN' } });
    await (await hosted.api()).rollback();
    expect((await execute(hosted, "'x' in globals()")).result.value).toBe(false);
  });

  test('a caller who goes away stops the code only where he asked for that', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    const stop = new AbortController();
    const running = execute(hosted, "print('on', flush=True)\nwhile True: pass", { signal: stop.signal });
    await next(hosted, 'stdout');
    stop.abort();
    expect((await running).result.status).toBe('interrupted');
    const reader = new AbortController();
    const { execution, firstSeq, outcome } = await start(hosted, "import time; time.sleep(0.1); print('done')");
    reader.abort();
    expect(await collect(hosted.events({ after: firstSeq - 1, execution, signal: reader.signal }))).toEqual([]);
    expect((await outcome).stdout).toBe('done\n');
  });

  test('interrupt stops what runs', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    expect(await hosted.interrupt()).toBe(false);
    const running = execute(hosted, "print('on', flush=True)\nwhile True: pass");
    await next(hosted, 'stdout');
    expect(await hosted.interrupt()).toBe(true);
    expect((await running).result.status).toBe('interrupted');
  });

  test('the first of two answers to one input wins, and the other is told', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    const running = execute(hosted, "name = input('who? ')\nname");
    const request = await next(hosted, 'input_request');
    expect(request).toMatchObject({ prompt: 'who? ', password: false });
    const answers = await Promise.allSettled([
      hosted.answerInput(request.id, 'ann', { by: 'a' }),
      hosted.answerInput(request.id, 'bob', { by: 'b' }),
      hosted.cancelInput(request.id, { by: 'c' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    for (const answer of answers.slice(1)) expect(answer).toMatchObject({ reason: { code: 'INPUT_NOT_PENDING' } });
    expect((await running).result.value).toBe('ann');
    const events = await logged(hosted);
    const told = events.filter(({ type }) => type === 'input_answered');
    expect(told).toMatchObject([{ id: request.id, outcome: 'answered', by: 'a' }]);
    expect(JSON.stringify(told)).not.toContain('ann');
  });

  test('an input that nobody answers is told as such, and a refused one too', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    const late = await execute(hosted, 'input()', { inputTimeoutMs: 20 });
    expect(late.result).toMatchObject({ status: 'error', error: { name: 'EOFError' } });
    expect((await logged(hosted)).filter(({ type }) => type === 'input_answered')).toMatchObject([
      { outcome: 'unanswered' },
    ]);
    const running = execute(hosted, 'input()');
    const { id } = await next(hosted, 'input_request', (await hosted.position()).last);
    await hosted.cancelInput(id, { reason: 'not today' });
    expect((await running).result.error?.message).toContain('not today');
    await expect(hosted.answerInput(id, 'x')).rejects.toMatchObject({ code: 'INPUT_NOT_PENDING' });
  });

  test('a reader from any number gets the rest and then what comes, each once', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    for (const number of upTo(5)) await execute(hosted, `print(${number})`);
    const { last } = await hosted.position();
    const stop = new AbortController();
    const readers = [0, 1, 7, last].map((after) => collect(hosted.events({ after, signal: stop.signal })));
    await execute(hosted, 'for n in range(300): print(n, flush=True)');
    const { last: end } = await hosted.position();
    await until(
      async () => (await hosted.position()).last,
      (now) => now >= end,
    );
    await delay(0);
    stop.abort();
    for (const [index, reader] of readers.entries()) {
      const seen = numbersOf((await reader).filter(isEvent));
      expect(seen).toEqual(upTo(seen.at(-1) ?? 0, [1, 2, 8, last + 1][index]));
    }
    const bad = collect(hosted.events({ after: end + 1000 }));
    await expect(bad).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
  });

  test('the events of one execution end by themselves, and also long after it', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    const { execution, firstSeq } = await start(hosted, "print('a')\nprint('b')");
    const live = await collect(hosted.events({ after: firstSeq - 1, execution }));
    await execute(hosted, '1');
    const later = await collect(hosted.events({ after: firstSeq - 1, execution }));
    expect(later).toEqual(live);
    expect(live.map(({ type }) => type).filter((type) => type !== 'stdout')).toEqual(['execution_started', 'result']);
    expect(await collect(hosted.events({ execution: 'exe_0000000000000000' }))).toEqual([]);
  });

  test('what a thread writes after its cell carries the execution that started it, whatever runs meanwhile', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    await execute(hosted, 'import threading\ngo = threading.Event()');
    const work = 'def work():\n    go.wait()\n    print("late")\n    display("shown")\n';
    const { execution } = await execute(hosted, `${work}thread = threading.Thread(target=work)\nthread.start()`);
    const other = await execute(hosted, 'print("mine")\ngo.set()\nthread.join()');
    expect(other.result).toMatchObject({ stdout: 'mine\n', displays: [] });
    const late = { execution, background: true, number: 2 };
    expect(await next(hosted, 'display')).toMatchObject(late);
    const texts = hosted.events();
    for await (const item of texts)
      if (item.type === 'stdout' && item.background) {
        expect(item).toMatchObject({ text: 'late\n', ...late });
        break;
      }
    const own = await collect(hosted.events({ execution: other.execution }));
    expect(own.map(({ type }) => type)).toEqual(['execution_started', 'stdout', 'result']);
  });

  test('an automatic save is told', async () => {
    const { hosted } = await openHosted(await newPlace(kind), { saveAfterMs: 10 });
    await execute(hosted, 'x = 1');
    expect(await next(hosted, 'saved')).toMatchObject({ lost: [], checkpoint: expect.any(String) });
  });

  test('what is too large for an event is a file, and nothing of it is lost', async () => {
    const options = { limits: { eventBytes: 2048, inlineBytes: 20_000 } };
    const { hosted } = await openHosted(await newPlace(kind), {}, options);
    const code = "for n in range(3000): print('%06d' % n, flush=n % 10 == 0)\ndisplay('d' * 5000)\nlist(range(2000))";
    const { result, execution, firstSeq } = await execute(hosted, code);
    const events = ofExecution(await logged(hosted, firstSeq - 1), execution);
    const moved = events.filter((event) => event.type === 'output_file');
    expect(moved).toHaveLength(1);
    const read = async (file: string, offset = 0) => {
      const parts: Uint8Array[] = [];
      for await (const part of (await hosted.openOutput(file)).read({ offset })) parts.push(part);
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
      await expect(hosted.openOutput(bad)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
  });

  test('everything else that is done to a session is told too', async () => {
    const { hosted } = await openHosted(await newPlace(kind), { undo: 2 });
    const api = await hosted.api();
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
    const events = await logged(hosted);
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

  test('retention trims by size and by age, tells what is gone, and never while code runs', async () => {
    const retention = { maxBytes: 20_000, maxAgeMs: 0, maxFileBytes: 4000 };
    const opened = await openHosted(await newPlace(kind), {}, { retention, sweepEveryMs: 20 });
    const hosted = await opened.host.open(opened.hosted.id);
    const running = await start(hosted, "for n in range(100): print('x' * 900, flush=True)\ninput()");
    const { id } = await next(hosted, 'input_request');
    const { last } = await hosted.position();
    const order: string[] = [];
    const trimmed = hosted.applyRetention().then(() => order.push('trimmed'));
    const ended = running.outcome.then(() => order.push('ended'));
    expect((await hosted.position()).trimmedThrough).toBe(0);
    await hosted.answerInput(id, '');
    await Promise.all([trimmed, ended]);
    expect(order).toEqual(['ended', 'trimmed']);
    await until(
      async () => (await hosted.position()).trimmedThrough,
      (trimmedThrough) => trimmedThrough > 0,
    );
    await execute(hosted, "print('after')");
    const { trimmedThrough } = await hosted.position();
    const stop = new AbortController();
    const items: unknown[] = [];
    for await (const item of hosted.events({ signal: stop.signal })) {
      items.push(item);
      if (item.type === 'stdout' && item.text === 'after\n') break;
    }
    expect(items[0]).toMatchObject({ type: 'trimmed', throughSeq: expect.any(Number) });
    expect(trimmedThrough).toBeGreaterThan(0);
    expect(trimmedThrough).toBeLessThanOrEqual(last + 10);
    const seqs = items.slice(1).map((item) => (item as SessionEvent).seq);
    expect(seqs).toEqual(upTo(seqs.at(-1) ?? 0, (items[0] as { throughSeq: number }).throughSeq + 1));
  });

  test('retention by age takes all that is old, and numbers go on', async () => {
    const { hosted, host } = await openHosted(
      await newPlace(kind),
      {},
      { retention: { maxAgeMs: 1 }, sweepEveryMs: 20 },
    );
    await execute(hosted, '1');
    const { last } = await hosted.position();
    await until(
      async () => (await hosted.position()).trimmedThrough,
      (trimmedThrough) => trimmedThrough >= last,
    );
    expect((await execute(hosted, '2')).firstSeq).toBeGreaterThan(last);
    expect((await host.metrics()).executions).toMatchObject({ ok: 2 });
  });
});

describe.each(['file', 'redis'] as const)('an Idempotency-Key in %s storage', (kind) => {
  test('makes retries at the same time join the one that runs', async () => {
    const { hosted } = await openHosted(await newPlace(kind));
    await execute(hosted, 'runs = 0');
    const code = 'import time; time.sleep(0.1); runs += 1; runs';
    const all = await Promise.all(upTo(10).map(() => execute(hosted, code, { idempotencyKey: 'k' })));
    expect(new Set(all.map(({ execution }) => execution)).size).toBe(1);
    expect(all.map(({ result }) => result.value)).toEqual(upTo(10).map(() => 1));
    expect(all.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect((await execute(hosted, 'runs')).result.value).toBe(1);
  });

  test('gives a later retry the same result, also after a restart, and large ones too', async () => {
    const place = await newPlace(kind);
    const { hosted, end } = await openHosted(place);
    const first = await execute(hosted, "n = 1; print('hi'); 2**80", { idempotencyKey: 'small' });
    const large = await execute(hosted, "print('z' * 900_000)", { idempotencyKey: 'large' });
    const failing = execute(hosted, 'n = 5', { idempotencyKey: 'failing', transaction: 'explicit' });
    await failing;
    await expect(execute(hosted, '1', { idempotencyKey: 'refused' })).rejects.toMatchObject({
      code: 'TRANSACTION_OPEN',
    });
    await end();
    const { host } = await openHost(place);
    const later = await host.open(hosted.id);
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
    const { hosted } = await openHosted(await newPlace(kind));
    await execute(hosted, '1', { idempotencyKey: 'k' });
    await expect(execute(hosted, '2', { idempotencyKey: 'k' })).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' });
    await expect(execute(hosted, '1', { idempotencyKey: 'k', timeoutMs: 5 })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
    });
  });

  test('is known for a time, and so many are', async () => {
    const options = { requests: { maxAgeMs: 86_400_000, maxCount: 3 }, sweepEveryMs: 20 };
    const { hosted, storage } = await openHosted(await newPlace(kind), {}, options);
    for (const number of upTo(8)) await execute(hosted, `${number}`, { idempotencyKey: `k${number}` });
    const kept = await until(
      async () => (await storage.documents.list('idempotency')).documents.length,
      (count) => count === 3,
    );
    expect(kept).toBe(3);
    const { last } = await hosted.position();
    await execute(hosted, '8', { idempotencyKey: 'k8' });
    expect((await hosted.position()).last).toBe(last);
    const short = await openHosted(await newPlace(kind), {}, { requests: { maxAgeMs: 0 } });
    const [one, two] = [
      await execute(short.hosted, '1', { idempotencyKey: 'k' }),
      await execute(short.hosted, '1', { idempotencyKey: 'k' }),
    ];
    expect(two.execution).not.toBe(one.execution);
  });
});
