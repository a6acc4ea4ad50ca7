/** SessionManagers for tests, on each storage: closed after the test, with nothing left at the file's end. */

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { SessionEvent, StreamItem } from '../../../src/protocol/session-events.ts';
import type { NewSession } from '../../../src/protocol/session-info.ts';
import type { ServerSession } from '../../../src/server/sessions/server-session.ts';
import { SessionManager } from '../../../src/server/sessions/session-manager.ts';
import type { SessionManagerOptions } from '../../../src/server/sessions/session-types.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { RedisServer } from '../../support/servers/redis.ts';

/** Where sessions are kept: opened again, it is the same. */
export interface Place {
  readonly dataDir: string;
  open(): Promise<Storage>;
}

let redis: RedisServer | undefined;

/** For files that use Redis. */
export function useRedis(): () => RedisServer {
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.remove());
  return () => redis as RedisServer;
}

export async function newPlace(kind: 'file' | 'redis'): Promise<Place> {
  const dataDir = await scratchFolder();
  const prefix = randomUUID();
  const url = redis?.url ?? '';
  return { dataDir, open: () => (kind === 'file' ? FileStorage.open(dataDir) : RedisStorage.open(url, { prefix })) };
}

export type Options = Partial<Omit<SessionManagerOptions, 'storage' | 'dataDir'>>;

export interface Opened {
  readonly manager: SessionManager;
  readonly storage: Storage;
  end(): Promise<void>;
}

export async function openSessionManager(place: Place, options: Options = {}): Promise<Opened> {
  const storage = await place.open();
  const manager = await SessionManager.open({ ...options, storage, dataDir: place.dataDir });
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= manager.close().finally(() => storage.close());
    return ending;
  };
  onTestFinished(() => end().catch(() => {})); // what a test does to storage is its own business
  return { manager, storage, end };
}

/** A session of its own manager. */
export async function openServerSession(
  place: Place,
  wanted: NewSession = {},
  options: Options = {},
): Promise<Opened & { serverSession: ServerSession }> {
  const opened = await openSessionManager(place, options);
  const { session } = await opened.manager.create('local', wanted);
  return { ...opened, serverSession: await opened.manager.open(session.id) };
}

/** What there is in the log so far. */
export async function logged(serverSession: ServerSession, after = 0): Promise<SessionEvent[]> {
  const { last } = await serverSession.position();
  const events: SessionEvent[] = [];
  if (last <= after) return events;
  for await (const item of serverSession.events({ after })) {
    if (isEvent(item)) events.push(item);
    if (isEvent(item) && item.seq >= last) break;
  }
  return events;
}

export function isEvent(item: StreamItem): item is SessionEvent {
  return item.type !== 'trimmed';
}

/** The first that comes of a type. */
export async function next<T extends SessionEvent['type']>(
  serverSession: ServerSession,
  type: T,
  after = 0,
): Promise<Extract<SessionEvent, { type: T }>> {
  const is = (item: StreamItem): item is Extract<SessionEvent, { type: T }> => item.type === type;
  for await (const item of serverSession.events({ after })) if (is(item)) return item;
  throw new Error(`the session ended before any ${type}`);
}

export const numbersOf = (events: readonly SessionEvent[]) => events.map(({ seq }) => seq);
export const upTo = (last: number, from = 1) => Array.from({ length: last - from + 1 }, (_, index) => from + index);
export const textOf = (events: readonly SessionEvent[], type: 'stdout' | 'stderr' = 'stdout') =>
  events.map((event) => (event.type === type ? event.text : '')).join('');

export async function collect(items: AsyncIterable<StreamItem>): Promise<StreamItem[]> {
  const all: StreamItem[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const TIMEOUT_MS = 30_000;

/** Asks again until the answer is right. */
export async function until<T>(ask: () => Promise<T>, right: (answer: T) => boolean): Promise<T> {
  for (const deadline = performance.now() + TIMEOUT_MS; ; ) {
    const answer = await ask();
    if (right(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`still ${JSON.stringify(answer)}`);
    await delay(5);
  }
}
