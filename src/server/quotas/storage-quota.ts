/**
 * The storage quota of a user. Measuring takes a while, so a measurement is used for a minute, together with everything
 * admitted since.
 */

import type { BigIntStats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { discardedFolders } from '../../environments/files/remove-tree.ts';
import { folderSize } from '../../lib/folder-size.ts';
import { everyArtifact } from '../../namespaces/artifacts/artifacts-namespace.ts';
import type { Quotas } from '../../protocol/access-models.ts';
import { isSandboxUid } from '../../sandbox/sandbox-user.ts';
import type { CheckpointStore, EventLog, Storage, TranscriptStore } from '../../storage/contract.ts';
import { folderName, jsonLength } from '../../storage/validation.ts';
import { isLocalUser, storageKeyOf } from '../ids.ts';
import { sessionsOf } from '../sessions/session-listing.ts';
import type { SessionManager } from '../sessions/session-manager.ts';
import { checkLimits, type UserQuotas } from './user-quotas.ts';

const FRESH_MS = 60_000;

/** What the storage quota of a user counts. */
interface StoredData {
  /** Workspaces, and the user's other folders on disk. */
  readonly folders: readonly string[];
  /** Storage keys of the user's sessions. */
  readonly agentKeys: readonly string[];
  /** Artifacts and skills. */
  readonly keptBytes: number;
}

interface StorageQuotaOptions {
  readonly quotas: Pick<UserQuotas, 'limitsOf'>;
  readonly checkpoints: Pick<CheckpointStore, 'bytes'>;
  readonly transcripts: Pick<TranscriptStore, 'bytes'>;
  readonly events: Pick<EventLog, 'bytes'>;
  readonly storedDataOf: (userId: string) => Promise<StoredData>;
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
}

interface MeasuredStorage {
  readonly at: number;
  readonly bytes: number;
}

export class StorageQuota {
  readonly #parts: StorageQuotaOptions;
  readonly #elapsed: () => number;
  readonly #measured = new Map<string, MeasuredStorage>();
  readonly #measuring = new Map<string, Promise<MeasuredStorage>>();

  constructor(parts: StorageQuotaOptions) {
    this.#parts = parts;
    this.#elapsed = parts.elapsed ?? (() => performance.now());
  }

  /**
   * Throws QUOTA_EXCEEDED if these bytes exceed the user's limit. Cheap if the user has no limit. Pass `limits` if they are
   * known already.
   */
  async admit(userId: string, bytes = 1, limits?: Quotas): Promise<void> {
    const { storageBytes } = limits ?? (await this.#parts.quotas.limitsOf(userId));
    if (storageBytes === undefined) return void this.#measured.delete(userId);
    const known = this.#measured.get(userId) ?? (await this.#measure(userId));
    // Measures again in the background for the next calls, which try again if that fails.
    if (this.#elapsed() - known.at > FRESH_MS) this.#measure(userId).catch(() => {});
    // Includes what was admitted during the wait. No await between check and addition, so that concurrent calls see each other.
    const { bytes: used } = this.#measured.get(userId) ?? known;
    checkLimits({ storageBytes }, { storageBytes: bytes }, { storageBytes: used });
    this.addStored(userId, bytes);
  }

  /** Adds the bytes of something that was admitted before its size was known. */
  addStored(userId: string, bytes: number): void {
    const known = this.#measured.get(userId);
    if (known) this.#measured.set(userId, { ...known, bytes: known.bytes + bytes });
  }

  /** The current use. */
  async used(userId: string): Promise<number> {
    return (await this.#measure(userId)).bytes;
  }

  #measure(userId: string): Promise<MeasuredStorage> {
    const known = this.#measuring.get(userId);
    if (known) return known;
    const measuring = this.#measureNow(userId).finally(() => this.#measuring.delete(userId));
    this.#measuring.set(userId, measuring);
    return measuring;
  }

  async #measureNow(userId: string): Promise<MeasuredStorage> {
    const { checkpoints, transcripts, events } = this.#parts;
    const { folders, agentKeys, keptBytes } = await this.#parts.storedDataOf(userId);
    let bytes = keptBytes;
    for (const folder of folders) bytes += await folderSize(folder);
    bytes += await unlinkedBytes(folders);
    for (const key of agentKeys) {
      bytes += (await transcripts.bytes(key)) + (await events.bytes(key)) + (await checkpoints.bytes(key));
    }
    const measured = { at: this.#elapsed(), bytes };
    this.#measured.set(userId, measured);
    return measured;
  }
}

interface UserDataContext {
  readonly sessions: SessionManager;
  readonly storage: Storage;
  readonly dataDir: string;
}

export async function storedDataOf(
  { sessions: manager, storage, dataDir }: UserDataContext,
  userId: string,
): Promise<StoredData> {
  const sessions = await sessionsOf(manager, userId);
  const agentKeys = sessions.map(({ agentKey }) => storageKeyOf(userId, agentKey));
  const folders = [
    ...agentKeys.map((key) => join(dataDir, 'agents', folderName(key))),
    ...sessions.map(({ id }) => join(dataDir, 'outputs', id)),
    ...(await discardedFolders(join(dataDir, 'agents'), userId)),
  ];
  return { agentKeys, folders, keptBytes: await userStoredBytes(storage, userId) };
}

/** What a user stores, apart from their sessions. */
async function userStoredBytes(storage: Storage, ownerId: string): Promise<number> {
  const { artifacts, skills } = isLocalUser(ownerId) ? storage : storage.scope(ownerId);
  let bytes = await artifacts.unlistedBytes();
  for await (const info of everyArtifact(artifacts)) bytes += info.size + jsonLength(info);
  for (const { text } of await skills.list()) bytes += Buffer.byteLength(text);
  return bytes;
}

const MOST_LOOKED_AT = 100_000;
const BLOCK_BYTES = 512n;

/** `folders` are those of agent keys. Infinity if there is too much to count; 0 if they have no user of their own. */
async function unlinkedBytes(folders: readonly string[]): Promise<number> {
  const [uids, devices] = [new Set<number>(), new Set<bigint>()];
  for (const folder of folders) {
    const home = await factsOf(join(folder, 'home'));
    if (!home || !isSandboxUid(Number(home.uid))) continue;
    uids.add(Number(home.uid));
    devices.add(home.dev);
  }
  if (uids.size === 0) return 0;
  const found = new Map<string, bigint>();
  const count = (facts: BigIntStats | undefined) => {
    // Memory-backed files count as memory.
    if (!facts?.isFile() || facts.nlink !== 0n || !devices.has(facts.dev)) return;
    found.set(`${facts.dev}:${facts.ino}`, facts.blocks * BLOCK_BYTES);
  };
  let lookedAt = 0;
  for (const pid of await namesIn('/proc')) {
    if (!/^\d+$/.test(pid) || !uids.has(await uidOf(pid))) continue;
    for await (const path of heldBy(pid)) {
      if (++lookedAt > MOST_LOOKED_AT) return Infinity;
      count(await factsOf(path));
    }
  }
  // This process holds files during uploads and downloads. They belong to the user that wrote them.
  for (const path of await descriptorsOf('self')) {
    const facts = await factsOf(path);
    if (facts && uids.has(Number(facts.uid))) count(facts);
  }
  return Number([...found.values()].reduce((sum, bytes) => sum + bytes, 0n));
}

/** Does not rely on the owner of the process's folder, which a process can hide. */
async function uidOf(pid: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => ''); // it has ended
  return Number(/^Uid:\t\d+\t(\d+)/m.exec(status)?.[1] ?? -1);
}

/**
 * Paths to files that a process has open, and to removed files that it has mapped. A thread can have descriptors of its own,
 * and the first thread, which the process is named after, can end before the others: then it shows neither.
 */
async function* heldBy(pid: string): AsyncGenerator<string> {
  let mapsRead = false;
  for (const thread of await namesIn(`/proc/${pid}/task`)) {
    yield* await descriptorsOf(thread);
    if (mapsRead) continue;
    const maps = await readFile(`/proc/${thread}/maps`, 'latin1').catch(() => ''); // it has ended
    mapsRead = maps !== '';
    const removed = maps.split('\n').filter((line) => line.endsWith(' (deleted)'));
    yield* removed.map((line) => `/proc/${thread}/map_files/${plain(line.split(' ', 1)[0] ?? '')}`);
  }
}

async function descriptorsOf(thread: string): Promise<string[]> {
  const folder = `/proc/${thread}/fd`;
  return (await namesIn(folder)).map((fd) => `${folder}/${fd}`);
}

/** The two files differ in leading zeros of ranges. */
const plain = (range: string): string =>
  range
    .split('-')
    .map((address) => address.replace(/^0+(?=.)/, ''))
    .join('-');

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []); // it has ended, or this is no Linux
}

async function factsOf(path: string): Promise<BigIntStats | undefined> {
  return await stat(path, { bigint: true }).catch(() => undefined); // it is gone
}
