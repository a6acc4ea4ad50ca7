/** Limits of file work: each user may run a few operations at a time and has a bounded queue; listings have a bounded size. */

import { CellaError } from '../../protocol/errors.ts';
import type { FileInfo } from '../../protocol/workspace-models.ts';
import { checkFolderAnswers, whileFolderAnswers } from '../../sandbox/named-folders.ts';
import { RequestStuck } from './file-broker.ts';
import type { Files, FilesRoot, Listing, NewFile } from './session-files.ts';

const WORK_AT_ONCE = 4;
const MOST_WAITING = 64;
/** Every wait ends, because the user's running operations may hang in a file system. */
const WAIT_TIMEOUT_MS = 30_000;
/** Files being written. Each stays open until its last byte arrives. */
const MOST_WRITTEN = 128;

interface WaitingLine {
  running: number;
  /** In queue order. */
  readonly waiting: Set<() => void>;
  /** The number of waiting operations that count towards MOST_WAITING. */
  newcomers: number;
}

interface QueueOptions {
  /** False for a step of an operation that has already begun, such as an upload. Such a step may always wait. */
  readonly isNew?: boolean;
  readonly timeoutMs?: number;
}

const lines = new Map<string, WaitingLine>();
const written = new Map<string, number>();

/** The user that the work counts for. Defaults to the user of the code, or else to the folder. */
export function askerOf({ whose, rights, path }: FilesRoot): string {
  return whose ?? (rights ? `uid ${rights.uid}` : path);
}

/** Resolves when the operation may begin, with a function to call when it ends. */
export async function takeTurn(whose: string, options: QueueOptions = {}): Promise<() => void> {
  const line = lines.get(whose) ?? { running: 0, waiting: new Set(), newcomers: 0 };
  lines.set(whose, line);
  if (line.running >= WORK_AT_ONCE) await wait(line, options);
  else line.running++;
  return () => {
    // Hands this turn to the next in line.
    const [next] = line.waiting;
    if (next) return next();
    line.running--;
    if (line.running === 0) lines.delete(whose);
  };
}

async function wait(line: WaitingLine, { isNew = true, timeoutMs = WAIT_TIMEOUT_MS }: QueueOptions): Promise<void> {
  if (isNew && line.newcomers >= MOST_WAITING) throw busy(`${MOST_WAITING} file requests are already waiting`);
  if (isNew) line.newcomers++;
  await new Promise<void>((resolve, reject) => {
    const leave = () => {
      clearTimeout(timer);
      line.waiting.delete(go);
      if (isNew) line.newcomers--;
    };
    const go = () => {
      leave();
      resolve();
    };
    const late = () => {
      leave();
      reject(busy(`no request could start within ${timeoutMs / 1000} s`));
    };
    const timer = timeoutMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(late, timeoutMs);
    line.waiting.add(go);
  });
}

/**
 * Files whose operations are queued per user, whichever adapter runs them. Operations in a folder that a session names fail
 * once the folder stops answering, and take no turn until it answers again. In such a folder each step with an open file takes
 * a turn too, because it occupies a thread of this process until the folder answers.
 */
export class FilesInTurn implements Files {
  readonly #files: Files;
  readonly #whose: string;
  readonly #named: string | undefined;

  constructor(files: Files, root: FilesRoot) {
    this.#files = files;
    this.#named = root.id && root.path;
    this.#whose = askerOf(root);
  }

  list(path: string, most: number, mostBytes?: number): Promise<Listing> {
    return this.#inTurn(() => this.#files.list(path, most, mostBytes));
  }

  entry(path: string): Promise<FileInfo> {
    return this.#inTurn(() => this.#files.entry(path));
  }

  read(path: string): ReturnType<Files['read']> {
    return this.#inTurn(
      () => this.#files.read(path),
      ({ file }) => file.close(),
    );
  }

  async create(path: string): Promise<NewFile> {
    const written = beginWriting(this.#whose);
    try {
      const made = await this.#inTurn(
        () => this.#files.create(path),
        (late) => late.discard(),
      );
      const { file } = made;
      const discard = () => this.endOpen(() => until(written, () => made.discard()));
      const commit = async () => {
        const left = await this.#nextStep().catch((error) => {
          discard().catch(() => {}); // report that no turn came, not this error
          throw error;
        });
        return await until(written, () => until(left, () => made.commit()));
      };
      return { file, commit: () => this.#whileAnswering(commit()), discard };
    } catch (error) {
      written();
      throw error;
    }
  }

  makeFolder(path: string): Promise<void> {
    return this.#inTurn(() => this.#files.makeFolder(path));
  }

  move(from: string, to: string, replace: boolean): Promise<FileInfo> {
    return this.#inTurn(() => this.#files.move(from, to, replace));
  }

  remove(path: string, recursive: boolean): Promise<void> {
    return this.#inTurn(() => this.#files.remove(path, recursive));
  }

  folder(path: string): ReturnType<Files['folder']> {
    return this.#inTurn(
      () => this.#files.folder(path),
      (folder) => folder.close(),
    );
  }

  /** Runs a step with a file that is already open. */
  stepOpen<T>(work: () => Promise<T>): Promise<T> {
    return this.#whileAnswering(this.#step(work));
  }

  /** Runs the last step. It waits for its turn without a timeout, because the file would otherwise stay open. */
  endOpen<T>(work: () => Promise<T>): Promise<T> {
    return this.#whileAnswering(this.#step(work, { timeoutMs: Number.POSITIVE_INFINITY }));
  }

  async #step<T>(work: () => Promise<T>, options?: QueueOptions): Promise<T> {
    return await until(await this.#nextStep(options), work);
  }

  async #nextStep(options?: QueueOptions): Promise<() => void> {
    return this.#named === undefined ? () => {} : await takeTurn(this.#whose, { ...options, isNew: false });
  }

  #whileAnswering<T>(work: Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    return this.#named === undefined ? work : whileFolderAnswers(this.#named, work, undo);
  }

  async #inTurn<T>(work: () => Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    if (this.#named !== undefined) await checkFolderAnswers(this.#named);
    const left = await takeTurn(this.#whose);
    return await this.#whileAnswering(until(left, work), undo);
  }
}

/** Calls `left` after the work. Work that is stuck ends only when its thread is free again. */
async function until<T>(left: () => void, work: () => Promise<T>): Promise<T> {
  let over = Promise.resolve();
  try {
    return await work();
  } catch (error) {
    if (error instanceof RequestStuck) over = error.over;
    throw error;
  } finally {
    void over.then(left);
  }
}

/** Counts a file that is being written. Call the returned function when it is finished. */
export function beginWriting(whose: string): () => void {
  const count = written.get(whose) ?? 0;
  if (count >= MOST_WRITTEN) throw busy(`${MOST_WRITTEN} files are already being written`);
  written.set(whose, count + 1);
  return () => {
    const others = (written.get(whose) ?? 1) - 1;
    if (others === 0) written.delete(whose);
    else written.set(whose, others);
  };
}

function busy(why: string): CellaError {
  return new CellaError('RATE_LIMITED', `Too many requests for your files at a time: ${why}.`, {
    details: { retryAfterMs: 1000 },
  });
}

export class BoundedListing implements Listing {
  readonly files: FileInfo[] = [];
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

  /** False if the listing is full. */
  add(file: FileInfo): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(file.name));
    this.#cut ||= this.files.length >= this.#most || this.#bytes + bytes > this.#mostBytes;
    if (this.#cut) return false;
    this.files.push(file);
    this.#bytes += bytes;
    return true;
  }
}
