import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StopClock } from './stop-clock.ts';

let told: string[] = [];
const start = (timeoutMs: number, graceMs = 100) =>
  new StopClock({ timeoutMs, graceMs }, { timeout: () => told.push('timeout'), kill: () => told.push('kill') });

beforeEach(() => {
  told = [];
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('a stop clock', () => {
  it('tells of the timeout once', () => {
    start(1000);
    vi.advanceTimersByTime(999);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['timeout']);
    vi.advanceTimersByTime(10_000);
    expect(told).toEqual(['timeout']);
  });

  it('kills when the grace period is over', () => {
    const clock = start(1000);
    vi.advanceTimersByTime(1000);
    clock.grace();
    vi.advanceTimersByTime(99);
    expect(told).toEqual(['timeout']);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['timeout', 'kill']);
  });

  it('with no limit never tells of a timeout, and still kills after a grace period', () => {
    const clock = start(0);
    vi.advanceTimersByTime(1_000_000);
    expect(told).toEqual([]);
    clock.grace();
    vi.advanceTimersByTime(100);
    expect(told).toEqual(['kill']);
  });

  it('stands still while a person is asked', () => {
    const clock = start(1000);
    vi.advanceTimersByTime(600);
    clock.pause();
    vi.advanceTimersByTime(1_000_000);
    expect(told).toEqual([]);
    clock.resume();
    vi.advanceTimersByTime(399);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['timeout']);
  });

  it('stands still once, however often it is paused', () => {
    const clock = start(1000);
    vi.advanceTimersByTime(500);
    clock.pause();
    clock.pause();
    vi.advanceTimersByTime(5000);
    clock.resume();
    clock.resume();
    vi.advanceTimersByTime(499);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['timeout']);
  });

  it('has one grace period, which no second stop makes longer, and in which no timeout is told', () => {
    const clock = start(1000);
    clock.grace();
    vi.advanceTimersByTime(60);
    clock.grace();
    clock.pause();
    clock.resume();
    vi.advanceTimersByTime(40);
    expect(told).toEqual(['kill']);
    vi.advanceTimersByTime(10_000);
    expect(told).toEqual(['kill']);
  });

  it('tells nothing after it is stopped', () => {
    const clock = start(1000);
    clock.grace();
    clock.stop();
    const other = start(1000);
    other.stop();
    vi.advanceTimersByTime(1_000_000);
    expect(told).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
