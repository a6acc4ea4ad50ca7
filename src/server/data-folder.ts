/** The data folder: who else may change it, which server holds it, and the file that says where that server is. */

import { readFileSync, rmSync, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { programsDir } from '../agents/installed-programs.ts';
import { replacePrivateFile } from '../lib/private-file.ts';
import { messageOf, systemCode } from '../lib/values.ts';
import { SERVER_FILE } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import { ServerFile } from '../protocol/server-info.ts';
import type { Lock, LockOwner, Locks, Storage } from '../storage/contract.ts';

/** No agent can have this key. A stored name, which stays so that no two versions hold one folder. */
const SERVER_LOCK = '\0daemon';

export async function lockFolder(locks: Locks, dataDir: string): Promise<Lock> {
  try {
    return await locks.acquire(SERVER_LOCK);
  } catch (error) {
    if (!(error instanceof CellaError && error.code === 'KEY_BUSY')) throw error;
    const { pid, host, since } = error.details;
    const at = urlOf(dataDir, Number(pid));
    const who = `process ${pid} on ${host}, since ${new Date(Number(since)).toISOString()}`;
    const message = `Another server runs on ${dataDir}${at === undefined ? '' : ` at ${at}`}: ${who}.`;
    const advice = `Use the server that runs, stop it with \`cella serve stop --data ${dataDir}\`, or choose another data folder.`;
    throw new CellaError('SERVER_RUNNING', message, { cause: error, details: { ...error.details }, advice });
  }
}

/** The server that holds the folder's lock. */
export async function folderOwner(locks: Locks): Promise<LockOwner | undefined> {
  return await locks.ownerOf(SERVER_LOCK);
}

/** The server named in the folder's server file. Its process may have ended since. */
export function announcedOwner(dataDir: string): LockOwner | undefined {
  const { holder, pid, startedAt } = readServerFile(join(dataDir, SERVER_FILE)) ?? {};
  if (holder === undefined || pid === undefined || startedAt === undefined) return undefined;
  return { id: holder, pid, host: hostname(), since: startedAt };
}

/** The address of the server with this pid. Undefined if the server file is from another process. */
function urlOf(dataDir: string, pid: number): string | undefined {
  const facts = readServerFile(join(dataDir, SERVER_FILE));
  return facts?.pid === pid ? facts.url : undefined;
}

function readServerFile(path: string): ServerFile | undefined {
  try {
    return ServerFile.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    // The server does not listen yet, or no longer.
    return undefined;
  }
}

/** Dispose of the result when the server ends. */
export async function writeServerFile(dataDir: string, facts: ServerFile): Promise<Disposable> {
  const path = join(dataDir, SERVER_FILE);
  await replacePrivateFile(path, `${JSON.stringify(facts)}\n`, `${path}.${process.pid}`);
  return {
    [Symbol.dispose]: () => {
      // Another server may have made a folder of the same name since.
      if (readServerFile(path)?.pid === facts.pid) rmSync(path, { force: true });
    },
  };
}

/** The server's Redis storage, if it has one, without the password. */
export function redisAddress(storage: Storage): Pick<ServerFile, 'redis'> {
  const config = storage.toBootstrapConfig();
  if (config.type !== 'redis') return {};
  const url = new URL(config.url);
  url.username = '';
  url.password = '';
  return { redis: { url: url.href, prefix: config.prefix } };
}

const WRITABLE_BY_OTHERS = 0o022;

/** A sticky bit does not help: other users could not remove files, but could still add some. */
export async function checkFolderRights(dataDir: string): Promise<void> {
  for (const path of [dataDir, programsDir(dataDir)]) {
    const facts = await statIfThere(path);
    if (!facts) continue;
    const what = path === dataDir ? `The data folder ${path}` : `The folder ${path}`;
    if (facts.uid !== process.geteuid?.()) {
      const advice =
        'Run the server as that user, give the folder to this one (chown -R), or name another with --data.';
      throw unsafe(
        `${what} belongs to another user (${facts.uid}), who could change the programs that the server runs.`,
        advice,
        path,
      );
    }
    if ((facts.mode & WRITABLE_BY_OTHERS) !== 0) {
      throw unsafe(`Others can write to ${what}.`, `Run: chmod go-w ${path}`, path);
    }
  }
}

/** Undefined if there is no such file yet: what the server creates is for its user alone. */
async function statIfThere(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    const message = `${path} cannot be used: ${messageOf(error)}.`;
    throw new CellaError('INVALID_OPTIONS', message, { cause: error });
  }
}

function unsafe(message: string, advice: string, path: string): CellaError {
  return new CellaError('INVALID_OPTIONS', message, { advice, details: { path } });
}
