/** Files reached with the rights of a session's own user, through the file broker of a host that runs as root. */

import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { z } from 'zod';
import { giveWay } from '../../lib/event-loop.ts';
import { FileInfo } from '../../protocol/workspace-models.ts';
import type { FileRights } from '../../sandbox/sandbox-user.ts';
import { type FileBroker, fileBroker, RequestNotStarted } from './file-broker.ts';
import { askerOf, BoundedListing } from './file-limits.ts';
import { errorOf } from './file-paths.ts';
import type { Files, FilesRoot, Listing, NewFile } from './session-files.ts';

/** A descriptor that the broker holds, with the device and inode that it must belong to. */
const Opened = z.object({ pid: z.int(), fd: z.int(), device: z.string(), inode: z.string() });
type Opened = z.infer<typeof Opened>;
/** `fd` is the descriptor for the next page. */
const Page = z.object({ files: z.array(FileInfo), fd: z.int().nullable() });
const Nothing = z.null();
const READ = constants.O_RDONLY | constants.O_NONBLOCK;
/** Rounds of removal before giving up on a folder that code keeps refilling. */
const MOST_ROUNDS = 100_000;
/** Attempts with brokers that end before they begin the request. */
const MOST_TRIES = 5;

export class BrokeredFiles implements Files {
  readonly #root: object;
  readonly #whose: string;

  constructor(root: FilesRoot, { uid, gid, mapped }: FileRights) {
    const { path, id, inside } = root;
    this.#root = { path, id, inside, uid, gid, mapped };
    this.#whose = askerOf(root);
  }

  async list(path: string, most: number, mostBytes = Number.POSITIVE_INFINITY): Promise<Listing> {
    return await this.#retryOnce(async (broker) => {
      const listing = new BoundedListing(most, mostBytes);
      let page = await broker.ask(this.#request('list', { path }), Page);
      for (;;) {
        const { files, fd } = page;
        const whole = files.every((file) => listing.add(file));
        if (fd === null) return listing;
        if (!whole) {
          broker.close(fd);
          return listing;
        }
        await giveWay();
        page = await broker.ask({ op: 'more', args: { fd }, whose: this.#whose }, Page);
      }
    });
  }

  async entry(path: string): Promise<FileInfo> {
    return await this.#retryOnce((broker) => broker.ask(this.#request('entry', { path }), FileInfo));
  }

  async read(path: string): Promise<{ info: FileInfo; file: FileHandle }> {
    return await this.#retryOnce(async (broker) => {
      const request = this.#request('read', { path });
      const opened = await broker.ask(request, FileInfo.extend(Opened.shape));
      const { name, kind, size, modifiedAt } = opened;
      return { info: { name, kind, size, modifiedAt }, file: await take(broker, opened, READ) };
    });
  }

  async folder(path: string): Promise<FileHandle> {
    return await this.#retryOnce(async (broker) => {
      const opened = await broker.ask(this.#request('folder', { path }), Opened);
      return await take(broker, opened, READ | constants.O_DIRECTORY);
    });
  }

  async create(path: string): Promise<NewFile> {
    return await withBroker((broker) => this.#create(broker, path));
  }

  async #create(broker: FileBroker, path: string): Promise<NewFile> {
    const opened = await broker.ask(this.#request('create', { path }), Opened);
    const { fd } = opened;
    const file = await reopen(opened, constants.O_WRONLY).catch(async (error) => {
      await broker.ask({ op: 'discard', args: { fd }, whose: this.#whose }, Nothing);
      throw error;
    });
    const left = broker.hold();
    const end = async <S extends z.ZodType>(op: 'commit' | 'discard', answer: S): Promise<z.infer<S>> => {
      try {
        return await broker.ask({ op, args: { fd }, whose: this.#whose }, answer);
      } finally {
        left();
        await file.close();
      }
    };
    return { file, commit: () => end('commit', FileInfo), discard: async () => void (await end('discard', Nothing)) };
  }

  async makeFolder(path: string): Promise<void> {
    await this.#ask('make', { path }, Nothing);
  }

  async move(from: string, to: string, replace: boolean): Promise<FileInfo> {
    return await this.#ask('move', { path: from, to, replace }, FileInfo);
  }

  async remove(path: string, recursive: boolean): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      if (await this.#ask('remove', { path, recursive }, z.boolean())) return;
    }
    throw errorOf('ENOTEMPTY');
  }

  async #ask<S extends z.ZodType>(op: string, args: object, answer: S): Promise<z.infer<S>> {
    return await withBroker((broker) => broker.ask(this.#request(op, args), answer));
  }

  #request(op: string, args: object) {
    return { op, args, root: this.#root, whose: this.#whose };
  }

  /** Reads can be repeated: retries once if the broker ended in the meantime. */
  #retryOnce<T>(work: (broker: FileBroker) => Promise<T>): Promise<T> {
    return withBroker(async (broker) => {
      try {
        return await work(broker);
      } catch (error) {
        if (broker.alive || error instanceof RequestNotStarted) throw error;
        return await withBroker(work);
      }
    });
  }
}

async function withBroker<T>(work: (broker: FileBroker) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const broker = await fileBroker();
    const left = broker.hold();
    try {
      return await work(broker);
    } catch (error) {
      if (!(error instanceof RequestNotStarted) || tries === MOST_TRIES) throw error;
    } finally {
      left();
    }
  }
}

/** Reopens the broker's descriptor as a file of this process; the broker closes its own. */
async function take(broker: FileBroker, opened: Opened, flags: number): Promise<FileHandle> {
  try {
    return await reopen(opened, flags);
  } finally {
    broker.close(opened.fd);
  }
}

async function reopen({ pid, fd, device, inode }: Opened, flags: number): Promise<FileHandle> {
  const file = await open(`/proc/${pid}/fd/${fd}`, flags);
  try {
    const facts = await file.stat({ bigint: true });
    // The broker may have ended and another process may have its pid.
    if (String(facts.dev) === device && String(facts.ino) === inode) return file;
    throw errorOf('EIO');
  } catch (error) {
    await file.close();
    throw error;
  }
}
