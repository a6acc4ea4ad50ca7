/**
 * Whether a user may store more: what its sessions and its namespaces hold against its limit. Measuring takes a while,
 * so what was measured is used for a minute, with what was admitted since.
 */

import type { BigIntStats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { folderSize } from '../../lib/folder-size.ts';
import type { Quotas } from '../../protocol/access-models.ts';
import { isSandboxUid } from '../../sandbox/spec.ts';
import type { CheckpointStore, EventLog, TranscriptStore } from '../../storage/contract.ts';
import type { UserQuotas } from './user-quotas.ts';

const FRESH_MS = 60_000;

export interface StoredData {
  /** Workspaces, and whatever else on the disk is the user's. */
  readonly folders: readonly string[];
  /** Storage keys of the user's sessions. */
  readonly agentKeys: readonly string[];
  /** Artifacts and skills. */
  readonly keptBytes: number;
}

interface StorageQuotaOptions {
  readonly quotas: Pick<UserQuotas, 'limitsOf' | 'check'>;
  readonly checkpoints: Pick<CheckpointStore, 'list'>;
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

  /** QUOTA_EXCEEDED if these bytes are over the limit of the user. Cheap if the user has no limit. `limits`: if known already. */
  async admit(userId: string, bytes = 1, limits?: Quotas): Promise<void> {
    const { quotas } = this.#parts;
    if ((limits ?? (await quotas.limitsOf(userId))).storageBytes === undefined)
      return void this.#measured.delete(userId);
    const { at, bytes: used } = this.#measured.get(userId) ?? (await this.#measure(userId));
    // Measured again in the background, for the next calls. If it fails, they try again.
    if (this.#elapsed() - at > FRESH_MS) this.#measure(userId).catch(() => {});
    await quotas.check(userId, { storageBytes: bytes }, { storageBytes: used });
    this.addStored(userId, bytes);
  }

  /** Adds bytes of something that was admitted before its size was known. */
  addStored(userId: string, bytes: number): void {
    const known = this.#measured.get(userId);
    if (known) this.#measured.set(userId, { ...known, bytes: known.bytes + bytes });
  }

  /** As it is now. */
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
      bytes += (await transcripts.bytes(key)) + (await events.bytes(key));
      for (const manifest of await checkpoints.list(key)) bytes += manifest.bytes;
    }
    const measured = { at: this.#elapsed(), bytes };
    this.#measured.set(userId, measured);
    return measured;
  }
}

const MOST_LOOKED_AT = 50_000;
const BLOCK_BYTES = 512n;

/** `folders` are those of agent keys. Infinity if there is too much to count; 0 if they have no user of their own. */
async function unlinkedBytes(folders: readonly string[]): Promise<number> {
  const homes = await Promise.all(folders.map((folder) => factsOf(join(folder, 'home'))));
  const own = homes.filter((home) => home !== undefined && isSandboxUid(Number(home.uid)));
  const [uids, devices] = [new Set(own.map((home) => Number(home?.uid))), new Set(own.map((home) => home?.dev))];
  if (uids.size === 0) return 0;
  const found = new Map<string, bigint>();
  let lookedAt = 0;
  for (const pid of await namesIn('/proc')) {
    if (!/^\d+$/.test(pid) || !uids.has(await uidOf(pid))) continue;
    for (const path of await heldBy(pid)) {
      if (++lookedAt > MOST_LOOKED_AT) return Infinity;
      const facts = await factsOf(path);
      // What lies in memory is counted as memory.
      if (!facts?.isFile() || facts.nlink !== 0n || !devices.has(facts.dev)) continue;
      found.set(`${facts.dev}:${facts.ino}`, facts.blocks * BLOCK_BYTES);
    }
  }
  return Number([...found.values()].reduce((sum, bytes) => sum + bytes, 0n));
}

/** Not by the owner of its folder: a process can hide that. */
async function uidOf(pid: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => ''); // it has ended
  return Number(/^Uid:\t\d+\t(\d+)/m.exec(status)?.[1] ?? -1);
}

/** Paths to what a process has open, and to what it has mapped and that was removed. */
async function heldBy(pid: string): Promise<string[]> {
  const [open, maps] = await Promise.all([
    namesIn(`/proc/${pid}/fd`),
    readFile(`/proc/${pid}/maps`, 'latin1').catch(() => ''), // it has ended
  ]);
  const removed = maps.split('\n').filter((line) => line.endsWith(' (deleted)'));
  return [
    ...open.map((fd) => `/proc/${pid}/fd/${fd}`),
    ...removed.map((line) => `/proc/${pid}/map_files/${plain(line.split(' ', 1)[0] ?? '')}`),
  ];
}

/** Ranges have zeros in front in one file and not in the other. */
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
