import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RefCounted } from './ref-counted.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function counted(options: { maxOpen?: number } = {}) {
  const closed: string[] = [];
  const resources = new RefCounted<{ name: string }>({
    idleMs: 100,
    close: async ({ name }) => void closed.push(name),
    ...options,
  });
  return { resources, closed };
}

test('users of one key share a resource, which closes some time after the last has released it', () => {
  const { resources, closed } = counted();
  const open = vi.fn(() => ({ name: 'a' }));
  const one = resources.acquire('a', open);
  const other = resources.acquire('a', open);
  expect(other.resource).toBe(one.resource);
  expect(open).toHaveBeenCalledTimes(1);
  one.release();
  one.release();
  vi.advanceTimersByTime(1000);
  expect(closed).toEqual([]);
  other.release();
  vi.advanceTimersByTime(99);
  expect(closed).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(closed).toEqual(['a']);
  expect(resources.acquire('a', () => ({ name: 'again' })).resource.name).toBe('again');
});

test('one that is acquired again in time stays open', () => {
  const { resources, closed } = counted();
  resources.acquire('a', () => ({ name: 'a' })).release();
  vi.advanceTimersByTime(60);
  const again = resources.acquire('a', () => ({ name: 'other' }));
  vi.advanceTimersByTime(1000);
  expect(again.resource.name).toBe('a');
  expect(closed).toEqual([]);
});

test('closeAll also closes resources in use, and their users can tell; a late release closes nothing', async () => {
  const { resources, closed } = counted();
  const held = resources.acquire('a', () => ({ name: 'a' }));
  expect(held.closed).toBe(false);
  await resources.closeAll();
  expect(held.closed).toBe(true);
  const next = resources.acquire('a', () => ({ name: 'next' }));
  held.release();
  vi.advanceTimersByTime(1000);
  expect(closed).toEqual(['a']);
  expect(next.closed).toBe(false);
});

test('beyond the limit, the resource that has been without users longest is closed', () => {
  const { resources, closed } = counted({ maxOpen: 2 });
  const used = resources.acquire('used', () => ({ name: 'used' }));
  resources.acquire('old', () => ({ name: 'old' })).release();
  resources.acquire('new', () => ({ name: 'new' })).release();
  expect(closed).toEqual(['old']);
  used.release();
});

test('one that could not be opened is opened again by the next caller', () => {
  const { resources } = counted();
  const failed = resources.acquire('a', () => ({ name: 'failed' }));
  resources.forget('a', failed.resource);
  expect(resources.acquire('a', () => ({ name: 'next' })).resource.name).toBe('next');
});
