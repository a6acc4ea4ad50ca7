/** Fences: whoever has lost a lock writes nothing any more, in no part of the storage; whoever has it does all as before. */

import { expect, it } from 'vitest';
import type { Lock, Storage } from '../../../src/storage/contract.ts';
import {
  eventsOf,
  failureOf,
  idsOf,
  keep,
  type OpenStorage,
  onePlace,
  recordOf,
  save,
  transcriptOf,
} from './samples.ts';

/** Every way to change something. */
export const writes: readonly (readonly [string, (storage: Storage) => Promise<unknown>])[] = [
  ['events.append', ({ events }) => events.append('a', ['late'])],
  ['events.trim', ({ events }) => events.trim('a', { maxEvents: 0 })],
  ['events.delete', ({ events }) => events.delete('a')],
  ['checkpoints.finish', (storage) => save(storage, 'a', 'late')],
  ['checkpoints.delete', ({ checkpoints }) => checkpoints.delete('a', 'one')],
  ['records.put', ({ records }) => records.put('a', recordOf('a', { workspaceOf: 'late' }))],
  ['records.delete', ({ records }) => records.delete('a')],
  ['documents.put', ({ documents }) => documents.put('c', 'one', 'late')],
  ['documents.delete', ({ documents }) => documents.delete('c', 'one')],
  ['artifacts.finish', (storage) => keep(storage, 'one', Buffer.from('late'))],
  ['artifacts.delete', ({ artifacts }) => artifacts.delete('one')],
  ['transcripts.put', ({ transcripts }) => transcripts.put('a', 'one', { revision: 9, text: 'late' })],
  ['transcripts.delete', ({ transcripts }) => transcripts.delete('a', 'one')],
  ['tools.put', ({ tools }) => tools.put('one', 'late')],
  ['tools.delete', ({ tools }) => tools.delete('one')],
  ['skills.put', ({ skills }) => skills.put('one', 'late')],
  ['deps.add', ({ deps }) => deps.add('late')],
  ['deps.remove', ({ deps }) => deps.remove('one')],
  ['scope.skills.put', (storage) => storage.scope('s').skills.put('one', 'late')],
  ['scope.artifacts.finish', (storage) => keep(storage.scope('s'), 'one', Buffer.from('late'))],
  ['scope.deps.add', (storage) => storage.scope('s').deps.add('late')],
  ['deleteKey', (storage) => storage.deleteKey('a')],
];

export async function fill(storage: Storage): Promise<void> {
  await storage.events.append('a', ['early']);
  await save(storage, 'a', 'one');
  await storage.records.put('a', recordOf('a', { workspaceOf: 'early' }));
  await storage.documents.put('c', 'one', 'early');
  await keep(storage, 'one', Buffer.from('early'));
  await storage.transcripts.put('a', 'one', { revision: 1, text: 'early' });
  await storage.tools.put('one', 'early');
  await storage.deps.add('one');
}

export async function contents(storage: Storage): Promise<unknown> {
  return [
    (await eventsOf(storage, 'a')).map(({ event }) => event),
    await idsOf(storage, 'a'),
    (await storage.records.get('a'))?.workspaceOf,
    (await storage.documents.get('c', 'one'))?.value,
    (await storage.artifacts.get('one'))?.size,
    await transcriptOf(storage.transcripts, 'a', 'one'),
    (await storage.tools.list()).map(({ text }) => text),
    (await storage.skills.list()).length,
    await storage.deps.list(),
    (await storage.scope('s').skills.list()).length,
    (await storage.scope('s').artifacts.list()).length,
    await storage.scope('s').deps.list(),
  ];
}

export function fenceContract(open: OpenStorage): void {
  it('let the owner of a lock write and read normally', async () => {
    const again = onePlace(open);
    const storage = await again();
    const own = storage.fenced(await storage.locks.acquire('a'));
    await fill(own);
    expect(await contents(own)).toEqual(await contents(await again()));
    for (const [, write] of writes) await write(own);
    expect(await storage.events.last('a')).toBe(0);
    expect(await storage.records.get('a')).toBeUndefined();
  });

  it('use their lock, also in a scope, and acquire other keys normally', async () => {
    const storage = await onePlace(open)();
    const lock = await storage.locks.acquire('a');
    const own = storage.fenced(lock);
    expect([storage.lock, own.lock, own.scope('s').lock]).toEqual([undefined, lock, lock]);
    expect((await failureOf(own.locks.acquire('a'))).code).toBe('KEY_BUSY');
    const other: Lock = await own.locks.acquire('b');
    expect((await failureOf(storage.locks.acquire('b'))).code).toBe('KEY_BUSY');
    await own.fenced(other).events.append('b', [1]);
    await own.close();
    expect([lock.held, await storage.events.last('b')]).toEqual([true, 1]);
  });
}
