/** Limits of file work: each user has a few operations at a time and a bounded queue; a listing has a bounded size. */

import { CellaError } from '../../protocol/errors.ts';
import type { FilesRoot, Listing, SessionFileInfo } from './session-files.ts';

const WORK_AT_ONCE = 4;
const MOST_WAITING = 64;
/** No wait is without an end: works of the user may hang in a file system that does not answer. */
const WAIT_TIMEOUT_MS = 30_000;
/** Of files that are being written, each of which is held open until its last byte has come. */
const MOST_WRITTEN = 128;

interface WaitingLine {
  running: number;
  readonly waiting: (() => void)[];
}

const lines = new Map<string, WaitingLine>();
const written = new Map<string, number>();

/** Who is asking: if nobody is named, the user of the code, or whoever works in this folder. */
export function askerOf({ whose, rights, path }: FilesRoot): string {
  return whose ?? (rights ? `uid ${rights.uid}` : path);
}

/** Resolves when the work may begin, with what to call after it. */
export async function takeTurn(whose: string): Promise<() => void> {
  const line = lines.get(whose) ?? { running: 0, waiting: [] };
  lines.set(whose, line);
  if (line.running >= WORK_AT_ONCE) {
    if (line.waiting.length >= MOST_WAITING) throw busy(`${MOST_WAITING} requests for files wait already`);
    await wait(line);
  } else line.running++;
  return () => {
    // The next one takes over this turn.
    const next = line.waiting.shift();
    if (next) return next();
    line.running--;
    if (line.running === 0) lines.delete(whose);
  };
}

async function wait({ waiting }: WaitingLine): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const go = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(go), 1);
      reject(busy(`no turn has come within ${WAIT_TIMEOUT_MS / 1000} s`));
    }, WAIT_TIMEOUT_MS);
    waiting.push(go);
  });
}

/** For each file that is begun; gives what to call at its end. To end it takes no turn: it would stay open. */
export function beginWriting(whose: string): () => void {
  const count = written.get(whose) ?? 0;
  if (count >= MOST_WRITTEN) throw busy(`${MOST_WRITTEN} files are being written already`);
  written.set(whose, count + 1);
  return () => {
    const others = (written.get(whose) ?? 1) - 1;
    if (others === 0) written.delete(whose);
    else written.set(whose, others);
  };
}

function busy(why: string): CellaError {
  return new CellaError('RATE_LIMITED', `Too much is asked of your files at a time: ${why}.`, {
    details: { retryAfterMs: 1000 },
  });
}

export class BoundedListing implements Listing {
  readonly files: SessionFileInfo[] = [];
  readonly #most: number;
  readonly #mostBytes: number;
  #bytes = 0;
  #cut = false;

  constructor(most: number, mostBytes: number) {
    this.#most = most;
    this.#mostBytes = mostBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get cut(): boolean {
    return this.#cut;
  }

  /** False where there is no more room. */
  add(file: SessionFileInfo): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(file.name));
    this.#cut ||= this.files.length >= this.#most || this.#bytes + bytes > this.#mostBytes;
    if (this.#cut) return false;
    this.files.push(file);
    this.#bytes += bytes;
    return true;
  }
}
