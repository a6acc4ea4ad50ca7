/** Artifacts as plain files, `<folder>/NAME`, which a person may edit, copy and drop in; what is known of them lies apart. */

import { type FileHandle, lstat, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { giveWay, inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactFacts, type ArtifactInfo, checkName } from '../../protocol/namespace-models.ts';
import { lengthOf } from '../artifact-facts.ts';
import type { ArtifactReader, ArtifactStore, ArtifactWriter, Clock, Lock, Page } from '../contract.ts';
import { aboutPath, aboutText, infoOf, type Known, readAbout } from './artifact-about.ts';
import { FileArtifactReader } from './artifact-reader.ts';
import { FileArtifactWriter, type Written } from './artifact-writer.ts';
import { makeFolder, syncFolder, writeFileDurably } from './durable.ts';
import { entriesOf, openPlain, pathOf } from './entries.ts';
import { guarded } from './failure.ts';
import { FolderCount } from './folder-count.ts';
import type { FileLocks } from './locks.ts';
import type { Scrap } from './scrap.ts';

interface Place {
  readonly folder: string;
  readonly scrap: Scrap;
  /** One at a time gives a name to a file, or takes it. */
  readonly turns: FileLocks;
  readonly clock: Clock;
}

const PATIENCE_MS = 30_000;
/** How many files are open at a time while they are listed. */
const AT_ONCE = 32;
/** How often a file that was replaced while we looked at it is looked at again. */
const ATTEMPTS = 5;

export class FileArtifacts implements ArtifactStore {
  readonly #place: Place;
  readonly #writers = new Set<ArtifactWriter>();
  readonly #count: FolderCount;
  #closed = false;

  constructor(place: Place) {
    this.#place = place;
    this.#count = new FolderCount(place.folder);
  }

  async begin(name: string): Promise<ArtifactWriter> {
    const checked = checkName(name, 'artifact');
    const { folder, scrap } = this.#place;
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${folder}: the storage is closed.`);
    return guarded('begin an artifact in', folder, async () => {
      const path = await scrap.file();
      const writer: ArtifactWriter = new FileArtifactWriter(checked, path, await open(path, 'wx', 0o600), {
        publish: (written, facts) => this.#publish(checked, written, facts),
        onEnd: () => this.#writers.delete(writer),
      });
      this.#writers.add(writer);
      return writer;
    });
  }

  async get(name: string): Promise<ArtifactInfo | undefined> {
    await using reader = await this.open(name);
    return reader?.info;
  }

  async list({ after = '', limit = Infinity, enough = Infinity }: Page = {}): Promise<ArtifactInfo[]> {
    const { folder } = this.#place;
    const entries = await guarded('read', folder, () => entriesOf(folder, ''));
    const names = entries.map(({ name }) => name).filter((name) => name > after);
    const infos: ArtifactInfo[] = [];
    let length = 0;
    for (let at = 0; at < names.length && infos.length < limit && length < enough; ) {
      await giveWay();
      const next = Math.min(at + AT_ONCE, at + limit - infos.length);
      const some = await Promise.all(names.slice(at, next).map((name) => this.get(name)));
      for await (const info of inSlices(some.filter((info) => info !== undefined))) {
        infos.push(info);
        length += enough === Infinity ? 0 : lengthOf(info);
      }
      at = next;
    }
    return infos;
  }

  holds(count: number): Promise<boolean> {
    return guarded('read', this.#place.folder, () => this.#count.holds(count));
  }

  async open(name: string): Promise<ArtifactReader | undefined> {
    const found = await this.#open(checkName(name, 'artifact'));
    return found && new FileArtifactReader(infoFrom(found.known), found.file);
  }

  async delete(name: string): Promise<boolean> {
    const checked = checkName(name, 'artifact');
    const { folder } = this.#place;
    return this.#inTurn(checked, 'delete', async (path) => {
      const there = await lstat(path).catch(() => undefined);
      if (!there || there.isDirectory()) return false;
      // Facts without a file are nothing; a file without its facts would be another one.
      await rm(path);
      await syncFolder(folder);
      await rm(aboutPath(folder, checked), { force: true });
      return true;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const writer of [...this.#writers]) await writer.abort();
    await this.#place.turns.close();
  }

  #publish(name: string, { path: unfinished, ...sum }: Written, facts: ArtifactFacts): Promise<ArtifactInfo> {
    return this.#inTurn(name, 'write', async (path) => {
      const { folder, scrap, clock } = this.#place;
      const old = await this.#open(name);
      await old?.file.close();
      const at = Math.trunc(clock());
      const known = { ...facts, name, ...sum, createdAt: old?.known.createdAt ?? at, updatedAt: at };
      const about = aboutPath(folder, name);
      const unfinishedAbout = await scrap.file();
      await makeFolder(dirname(about));
      await writeFileDurably(unfinishedAbout, aboutText([known, ...(old ? [old.known] : [])]));
      await rename(unfinishedAbout, about);
      await syncFolder(dirname(about));
      await rename(unfinished, path);
      this.#count.added();
      await syncFolder(folder);
      return infoFrom(known);
    });
  }

  /** The file first, then what is known of it: what is known tells of the file before as well. */
  async #open(name: string): Promise<{ file: FileHandle; known: Known } | undefined> {
    const { folder } = this.#place;
    return guarded('read artifact', name, async () => {
      for (let attempt = 1; ; attempt += 1) {
        const path = await pathOf(folder, name, '');
        const file = await openPlain(path);
        if (!file) return undefined;
        try {
          const known = await infoOf(name, file, await readAbout(folder, name));
          const now = await stat(path).catch(() => undefined);
          if (now?.ino === (await file.stat()).ino || attempt === ATTEMPTS) return { file, known };
        } catch (error) {
          await file.close();
          throw error;
        }
        await file.close();
      }
    });
  }

  async #inTurn<T>(name: string, action: string, work: (path: string) => Promise<T>): Promise<T> {
    const { folder } = this.#place;
    await using _turn = await this.#turn(name);
    return await guarded(action, `${folder}: ${name}`, async () => work(await pathOf(folder, name, '')));
  }

  async #turn(name: string): Promise<Lock> {
    try {
      return await this.#place.turns.acquire(name, { waitMs: PATIENCE_MS });
    } catch (error) {
      if (!(error instanceof CellaError && error.code === 'AGENT_BUSY')) throw error;
      const message = `Cannot write artifact ${JSON.stringify(name)}: process ${error.details?.pid} has been writing it for too long. End or continue that process.`;
      throw new CellaError('STORAGE_FAILED', message, { details: error.details ?? {} });
    }
  }
}

const infoFrom = ({ stamp: _, ...info }: Known): ArtifactInfo => info;
