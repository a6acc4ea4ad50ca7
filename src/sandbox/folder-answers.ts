/**
 * Checks that the folders that a session names answer. A disk or network share that hangs blocks every caller, even a
 * synchronous call: one such folder would stop the event loop for all sessions.
 */

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { withTimeout } from '../lib/deadline.ts';
import { Semaphore } from '../lib/queues.ts';
import { folderHangs } from '../protocol/errors.ts';

const TIMEOUT_MS = 5000;
const slots = new Semaphore(4);
/** The most folders that may hang: each occupies a thread of this process until the folder answers. */
const MOST_LATE = 16;

/** A running check of one folder. Later callers share it; once it has a `problem`, they are refused until it ends. */
interface Look {
  problem: string | undefined;
  /** Resolves when the folder has answered or has a problem. */
  done: Promise<void>;
}

const looks = new Map<string, Look>();

interface FolderSettings {
  readonly cwd?: string | undefined;
  readonly sandbox?:
    | string
    | { readonly readable?: readonly string[]; readonly writable?: readonly string[] }
    | undefined;
}

/** The folders outside the data folder that a session asks for. The settings may be invalid; they are validated later. */
export function namedFolders({ cwd, sandbox }: FolderSettings): string[] {
  const { readable, writable } = (typeof sandbox === 'object' ? sandbox : undefined) ?? {};
  const named: unknown[] = [cwd, readable, writable].flat();
  return named.filter((path) => typeof path === 'string').map((path) => resolve(path));
}

/** Call before any synchronous work in these folders. */
export async function checkFoldersAnswer(settings: FolderSettings): Promise<void> {
  await Promise.all(namedFolders(settings).map(checkFolderAnswers));
}

export async function checkFolderAnswers(path: string): Promise<void> {
  const current = looks.get(path) ?? look(path);
  if (current.problem === undefined) await current.done;
  if (current.problem !== undefined) throw folderHangs(`The folder ${path} ${current.problem}.`);
}

/**
 * Waits for work in a folder while the folder answers. Abandoned work keeps running and keeps its thread; `undo` gets its
 * result.
 */
export async function whileFolderAnswers<T>(
  path: string,
  work: Promise<T>,
  undo: (late: T) => unknown = () => {},
): Promise<T> {
  const hangs = Promise.withResolvers<never>();
  let over = false;
  const finished = work.finally(() => {
    over = true;
  });
  const check = () =>
    checkFolderAnswers(path).catch((error) => {
      if (over) return;
      over = true;
      // The caller has already got an error.
      work.then(undo).catch(() => {});
      hangs.reject(error);
    });
  if (looks.get(path)?.problem !== undefined) void check();
  const timer = setInterval(check, TIMEOUT_MS);
  try {
    return await Promise.race([finished, hangs.promise]);
  } finally {
    clearInterval(timer);
  }
}

function look(path: string): Look {
  const current: Look = { problem: undefined, done: Promise.resolve() };
  looks.set(path, current);
  current.done = slots.run(() => lookOnce(path, current));
  return current;
}

async function lookOnce(path: string, current: Look): Promise<void> {
  if ([...looks.values()].filter(({ problem }) => problem !== undefined).length >= MOST_LATE) {
    current.problem = `cannot be looked at while ${MOST_LATE} others do not answer`;
    looks.delete(path);
    return;
  }
  // An error of the folder itself is reported when it is used.
  const answered = stat(path).then(
    () => {},
    () => {},
  );
  void answered.then(() => looks.delete(path));
  await withTimeout(answered, TIMEOUT_MS, () => new Error('late')).catch(() => {
    current.problem = `has not answered for ${TIMEOUT_MS / 1000} s`;
  });
}
