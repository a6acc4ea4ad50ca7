/** Sessions for tests: a data folder of their own each, closed after the test, and nothing left at the file's end. */

import { chmod, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { type ExecutionEvent, type ResultEvent, Session, type SessionOptions, shutdown } from '../../../src/index.ts';

export type Open = (options?: SessionOptions) => Promise<Session>;

const sessions = new Set<Session>();
const folders: string[] = [];

/** A folder that is removed at the end of the file; others may pass through it, so that a sandbox can. */
export async function scratchFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-test-'));
  folders.push(folder);
  await chmod(folder, 0o711);
  return folder;
}

export const openSession: Open = async (options = {}) => {
  const session = await Session.open({ dataDir: await scratchFolder(), ...options });
  sessions.add(session);
  return session;
};

/** One that is not closed after the test; whoever opens it does. */
export const openLasting: Open = async (options = {}) => {
  return await Session.open({ dataDir: await scratchFolder(), ...options });
};

/** Before what they use is closed. */
export async function closeSessions(): Promise<void> {
  const open = [...sessions];
  sessions.clear();
  await Promise.all(open.map((session) => session.close()));
}

afterEach(closeSessions);

afterAll(async () => {
  await shutdown();
  // Package sets cannot be written to: what is in them cannot be removed as it is.
  await Promise.all(folders.map(removeFolder));
});

/** Every event of a stream, the result last. */
export async function collect<T = ExecutionEvent>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of stream) all.push(one);
  return all;
}

export function resultOf(events: readonly ExecutionEvent[]): ResultEvent {
  const last = events.at(-1);
  if (last?.type !== 'result') throw new Error(`the last event is ${last?.type}, not a result`);
  return last;
}

/** Runs code that prints `ready` when it has come far enough; `result` is what it comes to. */
export async function runUntilReady(
  session: Session,
  code: string,
  options: Parameters<Session['run']>[1] = {},
): Promise<{ result: Promise<ResultEvent> }> {
  const ready = Promise.withResolvers<void>();
  let text = '';
  const result = session.run(code, {
    ...options,
    onEvent: (event) => {
      options.onEvent?.(event);
      if (event.type !== 'stdout') return;
      text += event.text;
      if (text.includes('ready')) ready.resolve();
    },
  });
  const early = result.then((event) => {
    throw new Error(`the code ended before it was ready: ${event.status} ${event.error?.traceback}`);
  });
  await Promise.race([ready.promise, early]);
  early.catch(() => {}); // it became ready first
  return { result };
}
