/** Work that several wait for: done once, stopped when none waits. */

import { expect, it } from 'vitest';
import { installAborted, type PackageProgress, SharedInstalls } from './shared-installs.ts';

function open() {
  const shared = new SharedInstalls<string>();
  const started: PackageProgress[] = [];
  const done = Promise.withResolvers<string>();
  const work = (audience: PackageProgress) => {
    started.push(audience);
    audience.signal.addEventListener('abort', () => done.reject(installAborted()));
    return done.promise;
  };
  return { shared, started, done, work };
}

it('runs once for all callers of the same work, and all get its progress', async () => {
  const { shared, started, done, work } = open();
  const told: string[] = [];
  const waiters = ['one', 'two'].map((who) => ({ progress: (text: string) => void told.push(`${who} ${text}`) }));
  const results = waiters.map((waiter) => shared.run('key', waiter, work));
  started[0]?.progress('half');
  done.resolve('value');
  expect(await Promise.all(results)).toEqual(['value', 'value']);
  expect(started).toHaveLength(1);
  expect(told).toEqual(['one half', 'two half']);
});

it('continues for the others when one gives up', async () => {
  const { shared, started, done, work } = open();
  const stop = new AbortController();
  const first = shared.run('key', { signal: stop.signal }, work);
  const second = shared.run('key', {}, work);
  stop.abort();
  await expect(first).rejects.toMatchObject({ code: 'ABORTED' });
  expect(started[0]?.signal.aborted).toBe(false);
  done.resolve('value');
  expect(await second).toBe('value');
});

it('is stopped when nobody waits, and starts again for a later caller', async () => {
  const { shared, started, work } = open();
  const stop = new AbortController();
  const first = shared.run('key', { signal: stop.signal }, work);
  stop.abort();
  const second = shared.run('key', {}, async () => 'anew');
  await expect(first).rejects.toMatchObject({ code: 'ABORTED' });
  expect(started[0]?.signal.aborted).toBe(true);
  expect(await second).toBe('anew');
});

it('does not start for a caller who has already given up, and a failure is not cached', async () => {
  const { shared, started, work } = open();
  await expect(shared.run('key', { signal: AbortSignal.abort() }, work)).rejects.toMatchObject({ code: 'ABORTED' });
  expect(started).toEqual([]);
  await expect(shared.run('key', {}, () => Promise.reject(new Error('once')))).rejects.toThrow('once');
  expect(await shared.run('key', {}, async () => 'twice')).toBe('twice');
});
