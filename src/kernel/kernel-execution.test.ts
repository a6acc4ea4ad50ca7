import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ExecutionDeadline } from './kernel-execution.ts';

let calls: string[] = [];
const start = (timeoutMs: number, graceMs = 100) =>
  new ExecutionDeadline(
    { timeoutMs, graceMs },
    { timeout: () => calls.push('timeout'), kill: () => calls.push('kill') },
  );

/** A deadline that has passed is reported in the next turn of the event loop, after all data that has arrived. */
async function pass(ms: number): Promise<void> {
  vi.advanceTimersByTime(ms);
  await new Promise((resolve) => setImmediate(resolve));
}

beforeEach(() => {
  calls = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the deadline of an execution', () => {
  it('reports the timeout once', async () => {
    start(1000);
    await pass(999);
    expect(calls).toEqual([]);
    await pass(1);
    expect(calls).toEqual(['timeout']);
    await pass(10_000);
    expect(calls).toEqual(['timeout']);
  });

  it('kills after the grace period', async () => {
    const clock = start(1000);
    await pass(1000);
    clock.startGrace();
    await pass(99);
    expect(calls).toEqual(['timeout']);
    await pass(1);
    expect(calls).toEqual(['timeout', 'kill']);
  });

  it('without a limit never reports a timeout, and still kills after a grace period', async () => {
    const clock = start(0);
    await pass(1_000_000);
    expect(calls).toEqual([]);
    clock.startGrace();
    await pass(100);
    expect(calls).toEqual(['kill']);
  });

  it('is paused while a person is asked', async () => {
    const clock = start(1000);
    await pass(600);
    clock.pause();
    await pass(1_000_000);
    expect(calls).toEqual([]);
    clock.resume();
    await pass(399);
    expect(calls).toEqual([]);
    await pass(1);
    expect(calls).toEqual(['timeout']);
  });

  it('is paused once, however often it is asked to', async () => {
    const clock = start(1000);
    await pass(500);
    clock.pause();
    clock.pause();
    await pass(5000);
    clock.resume();
    clock.resume();
    await pass(499);
    expect(calls).toEqual([]);
    await pass(1);
    expect(calls).toEqual(['timeout']);
  });

  it('has one grace period, which a second stop does not extend, and in which no timeout is reported', async () => {
    const clock = start(1000);
    clock.startGrace();
    await pass(60);
    clock.startGrace();
    clock.pause();
    clock.resume();
    await pass(40);
    expect(calls).toEqual(['kill']);
    await pass(10_000);
    expect(calls).toEqual(['kill']);
  });

  it('reports nothing after it is stopped', async () => {
    const clock = start(1000);
    clock.startGrace();
    clock.stop();
    const other = start(1000);
    other.stop();
    await pass(1_000_000);
    expect(calls).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
