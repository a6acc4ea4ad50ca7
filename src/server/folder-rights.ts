/**
 * Who else may change what a server goes by. The data folder names its programs, its database and its keys: whoever
 * may put another file in their place is the server. It is refused before anything in it is opened.
 */

import type { Stats } from 'node:fs';
import { constants, open, stat } from 'node:fs/promises';
import { programsDir } from '../agents/installed-programs.ts';
import { CellaError } from '../protocol/errors.ts';
import { systemCode } from '../storage/file/file-errors.ts';

const WRITABLE_BY_OTHERS = 0o022;
/** A group may be given a key to read, as systems do for their certificates. */
const KEY_OPEN_TO_OTHERS = 0o027;

/** A sticky bit is no excuse: others could not take files away, and could still put theirs where none is yet. */
export async function checkFolderRights(dataDir: string): Promise<void> {
  for (const path of [dataDir, programsDir(dataDir)]) {
    const facts = await factsOf(path);
    if (!facts) continue;
    const what = path === dataDir ? `The data folder ${path}` : `The folder ${path}`;
    if (facts.uid !== process.geteuid?.()) {
      const advice =
        'Run the server as that user, give the folder to this one (chown -R), or name another with --data.';
      throw refused(
        `${what} belongs to another user (${facts.uid}), who can change what the server runs.`,
        advice,
        path,
      );
    }
    if ((facts.mode & WRITABLE_BY_OTHERS) !== 0) {
      throw refused(`${what} can be written to by others.`, `Run: chmod go-w ${path}`, path);
    }
  }
}

/** What is read is what was checked: both go by the open file. */
export async function readPrivateKey(path: string): Promise<Buffer> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const { mode, uid } = await file.stat();
  if (uid !== process.geteuid?.() && uid !== 0) {
    throw refused(
      `The key ${path} belongs to another user (${uid}).`,
      'Give it to the user of the server (chown), or have a copy for it.',
      path,
    );
  }
  if ((mode & KEY_OPEN_TO_OTHERS) !== 0) {
    const advice = `Run: chmod 600 ${path}, and have another key made if somebody may have read this one.`;
    throw refused(`The key ${path} is open to others.`, advice, path);
  }
  return await file.readFile();
}

/** Undefined where there is nothing yet: what the server makes is for its user alone. */
async function factsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    const message = `${path} cannot be used: ${error instanceof Error ? error.message : String(error)}.`;
    throw new CellaError('INVALID_OPTIONS', message, { cause: error });
  }
}

function refused(message: string, advice: string, path: string): CellaError {
  return new CellaError('INVALID_OPTIONS', message, { advice, details: { path } });
}
