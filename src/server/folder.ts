/** One server for each data folder: a lock that ends with its process, and a file that tells others where it is. */

import { readFileSync, rmSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { SERVER_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import { ServerFile } from '../protocol/server-info.ts';
import type { Lock, LockHolder, Locks, Storage } from '../storage/contract.ts';

/** No agent can have this key. */
const DAEMON_KEY = '\0daemon';

export async function lockFolder(locks: Locks, dataDir: string): Promise<Lock> {
  try {
    return await locks.acquire(DAEMON_KEY);
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'AGENT_BUSY')) throw error;
    const { pid, host, since } = error.details;
    const at = urlOf(dataDir, Number(pid));
    const who = `process ${pid} on ${host}, since ${new Date(Number(since)).toISOString()}`;
    const message = `Another server runs on ${dataDir}${at === undefined ? '' : ` at ${at}`}: ${who}.`;
    const advice = `Use the server that runs, stop it with \`cella serve stop --data ${dataDir}\`, or choose another data folder.`;
    throw new CellaError('DAEMON_RUNNING', message, { cause: error, details: { ...error.details }, advice });
  }
}

/** Who has the folder as its server, by its lock. */
export async function folderHolder(locks: Locks): Promise<LockHolder | undefined> {
  return await locks.holder(DAEMON_KEY);
}

/** Who has told that it is the server: the process may have ended since. */
export function toldHolder(dataDir: string): LockHolder | undefined {
  const { holder, pid, startedAt } = factsIn(join(dataDir, SERVER_FILE)) ?? {};
  if (holder === undefined || pid === undefined || startedAt === undefined) return undefined;
  return { id: holder, pid, host: hostname(), since: startedAt };
}

/** The address of the process that has the folder; a file that another one has left says nothing of it. */
function urlOf(dataDir: string, pid: number): string | undefined {
  const facts = factsIn(join(dataDir, SERVER_FILE));
  return facts?.pid === pid ? facts.url : undefined;
}

function factsIn(path: string): ServerFile | undefined {
  try {
    return ServerFile.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    // It does not listen yet, or no longer.
    return undefined;
  }
}

/** Gives what to call at the end. */
export async function tellFacts(dataDir: string, facts: ServerFile): Promise<Disposable> {
  const path = join(dataDir, SERVER_FILE);
  const partial = `${path}.${process.pid}`;
  {
    await using file = await open(partial, 'w', 0o600);
    await file.writeFile(`${JSON.stringify(facts)}\n`);
  }
  await rename(partial, path);
  return {
    [Symbol.dispose]: () => {
      // Another server may have made a folder of the same name since.
      if (factsIn(path)?.pid === facts.pid) rmSync(path, { force: true });
    },
  };
}

/** Where a server keeps things, if not in files: without a password. */
export function redisOf(storage: Storage): Pick<ServerFile, 'redis'> {
  const config = storage.toBootstrapConfig();
  if (config.type !== 'redis') return {};
  const url = new URL(config.url);
  url.username = '';
  url.password = '';
  return { redis: { url: url.href, prefix: config.prefix } };
}
