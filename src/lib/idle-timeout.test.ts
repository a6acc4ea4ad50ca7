import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { IdleTimeout } from './idle-timeout.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('calls back once, after the time since the last use', () => {
  const onIdle = vi.fn();
  const idle = new IdleTimeout(100, onIdle);
  idle.restart();
  vi.advanceTimersByTime(60);
  idle.restart();
  vi.advanceTimersByTime(60);
  expect(onIdle).not.toHaveBeenCalled();
  vi.advanceTimersByTime(40);
  vi.advanceTimersByTime(1000);
  expect(onIdle).toHaveBeenCalledTimes(1);
});

test('does not call back while it is in use, nor if the time is 0', () => {
  const onIdle = vi.fn();
  const idle = new IdleTimeout(100, onIdle);
  idle.restart();
  idle.stop();
  const never = new IdleTimeout(0, onIdle);
  never.restart();
  vi.advanceTimersByTime(1000);
  expect(onIdle).not.toHaveBeenCalled();
});
