import { expect, test } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { EventLog } from '../../storage/contract.ts';
import { newCounters } from '../sessions/session-types.ts';
import { toEvent } from './event-stream.ts';
import { LogState, SessionLog } from './session-log.ts';

const EXECUTION = 'exe_0000000000000000';
const started: SessionEventBody = { type: 'execution_started', execution: EXECUTION, code: '' };
const out = (text: string): SessionEventBody => ({ type: 'stdout', text, execution: EXECUTION });
const ended: SessionEventBody = { type: 'result', execution: EXECUTION, status: 'ok', number: 1, durationMs: 0 };

type Fault = 'refused' | 'unanswered';

/** A log whose next appends fail: before they are carried out, or after. */
class FaultyLog implements EventLog {
  readonly events: { type: string; execution?: string }[] = [];
  readonly faults: (Fault | undefined)[] = [];
  away = false;
  appends = 0;

  async append(_key: string, events: readonly unknown[]): Promise<number> {
    this.appends++;
    await null;
    const fault = this.faults.shift();
    if (this.away || fault === 'refused') throw new CellaError('STORAGE_FAILED', 'the disk is full');
    this.events.push(...(events as { type: string }[]));
    if (fault === 'unanswered') throw new CellaError('STORAGE_UNREACHABLE', 'no answer');
    return this.events.length;
  }

  async last(): Promise<number> {
    if (this.away) throw new CellaError('STORAGE_FAILED', 'the disk is full');
    return this.events.length;
  }

  read(): never {
    throw new Error('not used');
  }

  floor = async () => 0;
  bytes = async () => 0;
  trim = async () => 0;
  delete = async () => true;

  get types(): string[] {
    return this.events.map(({ type }) => type);
  }
}

function newWriter(log = new FaultyLog()) {
  const failures: CellaError[] = [];
  const parts = { log, key: 'k', counters: newCounters(), owned: () => true };
  const writer = new SessionLog({ ...parts, onFailure: (error) => failures.push(error) }, new LogState(0));
  return { log, writer, failures, counters: parts.counters };
}

test('many small events are written together, in order, and numbered without gaps', async () => {
  const { log, writer } = newWriter();
  writer.listen(() => {});
  for (let number = 0; number < 100; number++) writer.add(out(String(number)));
  expect(await writer.write(ended)).toBe(101);
  expect(log.appends).toBe(1);
  const tail = writer.recent.after(0)?.map(({ event }) => event) ?? [];
  expect(tail.map(({ seq }) => seq)).toEqual(Array.from({ length: 101 }, (_, index) => index + 1));
});

test('nobody gets an event before it is written', async () => {
  const { log, writer } = newWriter();
  let seen = 0;
  writer.listen(() => {
    seen = writer.state.last;
    expect(log.events.length).toBeGreaterThanOrEqual(seen);
  });
  await Promise.all([writer.write(started), writer.write(ended)]);
  expect(seen).toBe(2);
});

test('a fast writer waits until there is room', async () => {
  const { writer } = newWriter();
  for (let number = 0; number < 30; number++) writer.add(out('x'.repeat(100_000)));
  expect(writer.full).toBe(true);
  await writer.room();
  await writer.settled();
  expect(writer.full).toBe(false);
});

test('events that storage refuses have no number, and the log says so when it works again', async () => {
  const { log, writer, failures, counters } = newWriter();
  await writer.write(started);
  log.faults.push('refused');
  await expect(writer.write(out('lost'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  expect(failures).toHaveLength(1);
  const seq = await writer.write({ type: 'session_state', change: 'reset' });
  expect(log.types).toEqual(['execution_started', 'events_lost', 'execution_failed', 'session_state']);
  expect(seq).toBe(4);
  expect(writer.state.open).toEqual([]);
  expect(counters).toMatchObject({ eventsLost: 1, appendFailures: 1 });
});

test('events that were written without an acknowledgement are not reported as lost, and keep their numbers', async () => {
  const { log, writer } = newWriter();
  log.faults.push('unanswered');
  await expect(writer.write(started)).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
  await writer.write({ type: 'session_state', change: 'reset' });
  expect(log.types).toEqual(['execution_started', 'execution_failed', 'session_state']);
});

test('an end that was written without an acknowledgement is the only one', async () => {
  const { log, writer } = newWriter();
  await writer.write(started);
  log.faults.push('unanswered');
  await expect(writer.write(ended)).rejects.toBeDefined();
  await writer.write({ type: 'session_state', change: 'reset' });
  expect(log.types).toEqual(['execution_started', 'result', 'session_state']);
});

test('a failure that is reported twice is in the log once', async () => {
  const { log, writer } = newWriter();
  await writer.write(started);
  log.faults.push('refused');
  await expect(writer.write(out('lost'))).rejects.toBeDefined();
  const error = new CellaError('STORAGE_FAILED', 'x').toJSON();
  await writer.write({ type: 'execution_failed', execution: EXECUTION, error });
  expect(log.types).toEqual(['execution_started', 'events_lost', 'execution_failed']);
});

test('storage that stays unreachable is retried, and lost events are counted together', async () => {
  const { log, writer } = newWriter();
  await writer.write(started);
  log.away = true;
  await expect(writer.write(out('a'))).rejects.toBeDefined();
  await expect(writer.write(out('b'))).rejects.toBeDefined();
  log.away = false;
  const told = Promise.withResolvers<void>();
  writer.listen(() => writer.isComplete && told.resolve());
  // By itself: nothing more is written.
  await told.promise;
  expect(log.events.slice(1)).toMatchObject([{ type: 'events_lost', count: 2 }, { type: 'execution_failed' }]);
});

test('a failure that was written without an acknowledgement is not reported again', async () => {
  const { log, writer } = newWriter();
  await writer.write(started);
  log.faults.push('refused', 'unanswered');
  await expect(writer.write(out('a'))).rejects.toBeDefined();
  await expect(writer.write(out('b'))).rejects.toBeDefined();
  await writer.write({ type: 'session_state', change: 'reset' });
  expect(log.types).toEqual(['execution_started', 'events_lost', 'execution_failed', 'events_lost', 'session_state']);
  expect(log.events.filter(({ type }) => type === 'events_lost')).toMatchObject([{ count: 1 }, { count: 1 }]);
});

test('a server that has lost the session writes nothing', async () => {
  const log = new FaultyLog();
  const parts = { log, key: 'k', counters: newCounters(), owned: () => false, onFailure: () => {} };
  const writer = new SessionLog(parts, new LogState(0));
  await expect(writer.write(started)).rejects.toMatchObject({ code: 'SESSION_ELSEWHERE' });
  expect(log.appends).toBe(0);
});

test('a session without readers keeps no events in memory', async () => {
  const { writer } = newWriter();
  await writer.write(started);
  expect(writer.recent.after(0)).toBeUndefined();
  const leave = writer.listen(() => {});
  await writer.write(ended);
  expect(writer.recent.after(1)).toMatchObject([{ event: { seq: 2 } }]);
  // What came before is only in the log.
  expect(writer.recent.after(0)).toBeUndefined();
  leave();
  expect(writer.recent.after(1)).toBeUndefined();
});

test('events that can wait are written with the next ones', async () => {
  const { log, writer } = newWriter();
  const first = writer.write(started, { soon: true });
  const last = writer.write(ended);
  expect([await first, await last]).toEqual([1, 2]);
  expect(log.appends).toBe(1);
  expect(await writer.write(started, { soon: true })).toBe(3);
});

test('events of earlier versions are read under their current names', () => {
  const lost = [{ name: 's', reason: 'a socket' }];
  const woken = { savedAgoMs: 5, restored: ['x'], lost };
  expect(toEvent({ seq: 1, at: 1, event: { ...ended, woken } })).toEqual({
    ...{ seq: 1, at: 1, ...ended },
    resumed: woken,
  });
  const saved = { type: 'saved', checkpoint: 'c', bytes: 3, lost };
  expect(toEvent({ seq: 2, at: 1, event: { ...saved, names: 4 } })).toEqual({
    ...{ seq: 2, at: 1, ...saved },
    variables: 4,
  });
});
