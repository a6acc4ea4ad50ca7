/** Files that are reached with the rights of a session's own user, by the broker of a host that runs as root. */

import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { z } from 'zod';
import type { FileRights } from '../../sandbox/uid.ts';
import { type Broker, fileBroker } from './broker.ts';
import type { FileInfo, Files, FilesRoot, Listing, NewFile } from './files.ts';
import { errorOf } from './path.ts';

const Info = z.object({
  name: z.string(),
  kind: z.enum(['file', 'folder', 'link', 'other']),
  size: z.number(),
  modifiedAt: z.number(),
});
/** A descriptor of the broker's, and what it must be of. */
const Opened = z.object({ fd: z.int(), device: z.string(), inode: z.string() });
type Opened = z.infer<typeof Opened>;
const List = z.object({ files: z.array(Info), cut: z.boolean() });
const Nothing = z.null();
const READ = constants.O_RDONLY | constants.O_NONBLOCK;
/** Of what was removed between two looks at it; code that makes folders as fast has not asked for them to go. */
const MOST_ROUNDS = 100_000;

export class BrokeredFiles implements Files {
  readonly #root: object;

  constructor({ path, id, inside }: FilesRoot, { uid, gid, mapped }: FileRights) {
    this.#root = { path, id, inside, uid, gid, mapped };
  }

  async list(path: string, most: number): Promise<Listing> {
    return await again((broker) => broker.ask('list', this.#root, { path, most }, List));
  }

  async entry(path: string): Promise<FileInfo> {
    return await again((broker) => broker.ask('entry', this.#root, { path }, Info));
  }

  async read(path: string): Promise<{ info: FileInfo; file: FileHandle }> {
    return await again(async (broker) => {
      const opened = await broker.ask('read', this.#root, { path }, Info.extend(Opened.shape));
      const { name, kind, size, modifiedAt } = opened;
      return { info: { name, kind, size, modifiedAt }, file: await take(broker, opened, READ) };
    });
  }

  async folder(path: string): Promise<FileHandle> {
    return await again(async (broker) => {
      const opened = await broker.ask('folder', this.#root, { path }, Opened);
      return await take(broker, opened, READ | constants.O_DIRECTORY);
    });
  }

  async create(path: string): Promise<NewFile> {
    const broker = await fileBroker();
    const opened = await broker.ask('create', this.#root, { path }, Opened);
    const { fd } = opened;
    const end = async <S extends z.ZodType>(op: 'commit' | 'discard', answer: S): Promise<z.infer<S>> => {
      try {
        return await broker.ask(op, this.#root, { fd }, answer);
      } finally {
        await file.close();
      }
    };
    const discard = async () => void (await end('discard', Nothing));
    const file = await reopen(broker, opened, constants.O_WRONLY).catch(async (error) => {
      await broker.ask('discard', this.#root, { fd }, Nothing);
      throw error;
    });
    return { file, commit: () => end('commit', Info), discard };
  }

  async makeFolder(path: string): Promise<void> {
    await this.#ask('make', { path }, Nothing);
  }

  async move(from: string, to: string, replace: boolean): Promise<FileInfo> {
    return await this.#ask('move', { path: from, to, replace }, Info);
  }

  async remove(path: string, recursive: boolean): Promise<void> {
    for (let round = 0; round < MOST_ROUNDS; round++) {
      if (await this.#ask('remove', { path, recursive }, z.boolean())) return;
    }
    throw errorOf('ENOTEMPTY');
  }

  async #ask<S extends z.ZodType>(op: string, args: object, answer: S): Promise<z.infer<S>> {
    return await (await fileBroker()).ask(op, this.#root, args, answer);
  }
}

/** Once more where the broker has ended meanwhile: what only looks can be done twice. */
async function again<T>(work: (broker: Broker) => Promise<T>): Promise<T> {
  const broker = await fileBroker();
  try {
    return await work(broker);
  } catch (error) {
    if (broker.alive) throw error;
    return await work(await fileBroker());
  }
}

/** What the broker has opened, as a file of this process; the broker lets go of it. */
async function take(broker: Broker, opened: Opened, flags: number): Promise<FileHandle> {
  try {
    return await reopen(broker, opened, flags);
  } finally {
    broker.close(opened.fd);
  }
}

async function reopen({ pid }: Broker, { fd, device, inode }: Opened, flags: number): Promise<FileHandle> {
  const file = await open(`/proc/${pid}/fd/${fd}`, flags);
  const facts = await file.stat({ bigint: true });
  // The broker may have ended, and another process have its number.
  if (String(facts.dev) === device && String(facts.ino) === inode) return file;
  await file.close();
  throw errorOf('EIO');
}
