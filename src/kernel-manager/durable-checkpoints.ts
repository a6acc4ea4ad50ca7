/** The durable checkpoints of one agent key: written from a kernel to storage, and loaded into another kernel. */

import { createHash, type Hash, randomUUID } from 'node:crypto';
import type { Kernel } from '../kernel/kernel.ts';
import type { LoadableSegment } from '../kernel/kernel-requests.ts';
import { CellaError } from '../protocol/errors.ts';
import { FrameError } from '../protocol/kernel-frames.ts';
import type { LoadedPayload, PartHeader } from '../protocol/kernel-payloads.ts';
import { CHECKPOINT_FORMAT, type LostName, type Manifest, type Segment } from '../protocol/kernel-state.ts';
import type { CheckpointStore, CheckpointWriter, Clock } from '../storage/contract.ts';

export interface DurableCheckpointSettings {
  readonly limitBytes: number;
  /** How long a kernel may take to save or to load. */
  readonly seconds: number;
  readonly clock: Clock;
}

export interface CheckpointLabel {
  readonly kind: Manifest['kind'];
  readonly name?: string;
  /** How many executions the session has had. */
  readonly execution: number;
}

/** The kind of the segment that holds the working folder. */
const FOLDER = 'cwd';
/** Automatic saves that are kept: the newest may turn out to be damaged. */
const SAVES_KEPT = 2;
const WRITE_BYTES = 1024 * 1024;
/** Bytes that the parts of a checkpoint may take beside its variables, and the fixed cost of each part. */
const OVERHEAD_BYTES = 64 * 1024 * 1024;
const SEGMENT_COST = 256;
/** Estimated memory of a segment beside its names, and of each name beside its text. */
const HELD_SEGMENT = 512;
const HELD_NAME = 64;

export class DurableCheckpoints {
  readonly #store: CheckpointStore;
  readonly #agentKey: string;
  readonly #settings: DurableCheckpointSettings;
  #ignoresSavedCwd = false;

  constructor(store: CheckpointStore, agentKey: string, settings: DurableCheckpointSettings) {
    this.#store = store;
    this.#agentKey = agentKey;
    this.#settings = settings;
  }

  /** From now on the working folder of a checkpoint is not restored: the session was given another. */
  ignoreSavedCwd(): void {
    this.#ignoresSavedCwd = true;
  }

  /** Saves the variables of an idle kernel, which can do nothing else meanwhile. */
  async write(kernel: Kernel, { kind, name, execution }: CheckpointLabel): Promise<Manifest> {
    const { limitBytes, seconds, clock } = this.#settings;
    await using writer = await this.#store.begin(this.#agentKey);
    using intake = new SegmentWriter(writer, kernel.budget, limitBytes + OVERHEAD_BYTES);
    const { python, saved, lost, failed } = await kernel.save({ limitBytes, seconds }, (header, bytes) =>
      intake.take(header, bytes),
    );
    if (failed !== undefined) {
      throw new CellaError('SAVE_FAILED', `The variables of this kernel could not be saved: ${failed}.`);
    }
    const segments = await intake.finish();
    const manifest: Manifest = {
      format: CHECKPOINT_FORMAT,
      id: randomUUID(),
      name,
      kind,
      createdAt: Math.max(0, Math.round(clock())),
      python,
      execution,
      bytes: segments.reduce((total, { bytes }) => total + bytes, 0),
      saved,
      lost,
      segments,
    };
    await writer.finish(manifest);
    if (kind === 'save') await this.#prune();
    return manifest;
  }

  /** Replaces the variables of a kernel by those of a checkpoint. */
  async read(kernel: Kernel, manifest: Manifest): Promise<LoadedPayload> {
    const damaged: LostName[] = [];
    const loaded = await kernel.load(manifest.python, this.#segments(manifest, damaged), this.#settings.seconds * 1000);
    const restored = new Set(loaded.restored);
    // A variable may have several parts; it is listed once.
    const all = new Map([...loaded.lost, ...damaged].map((one) => [one.name, one]));
    const lost = [...all.values()].filter(({ name }) => !restored.has(name));
    if (restored.size === 0 && damaged.length > 0) throw damagedError(manifest, lost);
    return { restored: loaded.restored, lost };
  }

  /** Rejects if no variable of a checkpoint can be read. Called before the current variables are cleared. */
  async check(manifest: Manifest): Promise<void> {
    const lost: LostName[] = [];
    for (const [index, { names }] of manifest.segments.entries()) {
      if (names.length === 0) continue;
      if (await this.#store.read(this.#agentKey, manifest, index)) return;
      lost.push(...names.map(damagedName));
    }
    if (lost.length > 0) throw damagedError(manifest, lost);
  }

  /** How long ago a checkpoint was made; 0 if the clock was set back since. */
  age(manifest: Manifest): number {
    return Math.max(0, this.#settings.clock() - manifest.createdAt);
  }

  list(): Promise<Manifest[]> {
    return this.#store.list(this.#agentKey);
  }

  /** The saves, newest first. */
  async saves(): Promise<Manifest[]> {
    return (await this.list()).filter(({ kind }) => kind === 'save').reverse();
  }

  /** Checkpoints whose manifest cannot be read: their variables, and whether they are saves, are unknown. */
  async unreadable(): Promise<{ readonly id: string; readonly reason: string }[]> {
    return await this.#store.damaged(this.#agentKey);
  }

  async delete(id: string): Promise<boolean> {
    return await this.#store.delete(this.#agentKey, id);
  }

  /** Deletes all saves; checkpoints stay. */
  async deleteSaves(): Promise<void> {
    await this.#prune(0);
  }

  async #prune(keep = SAVES_KEPT): Promise<void> {
    for (const old of (await this.saves()).slice(keep)) await this.delete(old.id);
  }

  async *#segments(manifest: Manifest, damaged: LostName[]): AsyncGenerator<LoadableSegment> {
    let index = 0;
    for await (const bytes of this.#store.segments(this.#agentKey, manifest)) {
      const { kind, names, portable } = manifest.segments[index++] as Segment;
      if (kind === FOLDER && this.#ignoresSavedCwd) continue;
      if (bytes) yield { header: { kind, names, portable }, bytes };
      else damaged.push(...names.map(damagedName));
    }
  }
}

const damagedName = (name: string): LostName => ({ name, reason: 'its part of the checkpoint is damaged' });

function damagedError({ id }: Manifest, lost: readonly LostName[]): CellaError {
  const message = `The checkpoint ${id} cannot be read: its data is damaged.`;
  return new CellaError('CHECKPOINT_DAMAGED', message, { details: { id, lost } });
}

/** Failures to save or load that are not the fault of storage. */
const KERNEL_FAULTS: ReadonlySet<string> = new Set([
  'SAVE_FAILED',
  'KERNEL_DIED',
  'KERNEL_OUT_OF_MEMORY',
  'KERNEL_CPU_LIMIT',
  'KERNEL_PROTOCOL',
]);

export function isKernelFault(error: unknown): error is CellaError {
  return error instanceof CellaError && KERNEL_FAULTS.has(error.code);
}

/** Writes the parts of a checkpoint as they arrive, and keeps the kernel from sending faster than they are written. */
class SegmentWriter implements Disposable {
  readonly #writer: CheckpointWriter;
  readonly #budget: Kernel['budget'];
  readonly #mostBytes: number;
  readonly #segments: Segment[] = [];
  #total = 0;
  #hash: Hash | undefined;
  #bytes = 0;
  /** Of names and segments, which the host holds until everything is written. */
  #kept = 0;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #written: Promise<void> = Promise.resolve();
  #problem: unknown;

  constructor(writer: CheckpointWriter, budget: Kernel['budget'], mostBytes: number) {
    this.#writer = writer;
    this.#budget = budget;
    this.#mostBytes = mostBytes;
  }

  take({ kind, names, portable, last }: PartHeader, bytes: Buffer): void {
    const headBytes = names.reduce((total, name) => total + HELD_NAME + 2 * name.length, HELD_SEGMENT);
    this.#total += bytes.length + SEGMENT_COST + headBytes;
    // A kernel respects the cap, unless user code has taken it over.
    if (this.#total > this.#mostBytes) throw new FrameError('a checkpoint that is larger than its cap');
    this.#hash ??= createHash('sha256');
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    this.#budget.take('waiting', bytes.length + SEGMENT_COST);
    this.#gathered.push(bytes);
    this.#gatheredBytes += bytes.length + SEGMENT_COST;
    if (this.#gatheredBytes >= WRITE_BYTES) this.#pass();
    if (!last) return;
    this.#kept += headBytes;
    this.#budget.take('kept', headBytes);
    this.#segments.push({ kind, names, portable, bytes: this.#bytes, sha256: this.#hash.digest('hex') });
    this.#hash = undefined;
    this.#bytes = 0;
  }

  async finish(): Promise<Segment[]> {
    this.#pass();
    await this.#written;
    if (this.#problem !== undefined) throw this.#problem;
    return this.#segments;
  }

  /** Small parts are written together. */
  #pass(): void {
    const [bytes, held] = [Buffer.concat(this.#gathered), this.#gatheredBytes];
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#written = this.#written.then(() => this.#write(bytes)).then(() => this.#budget.give('waiting', held));
  }

  async #write(bytes: Buffer): Promise<void> {
    try {
      if (this.#problem === undefined) await this.#writer.write(bytes);
    } catch (problem) {
      // Thrown at the end: until then the kernel keeps sending.
      this.#problem = problem;
    }
  }

  [Symbol.dispose](): void {
    // Buffered bytes are dropped: the save has failed.
    this.#budget.give('waiting', this.#gatheredBytes);
    this.#gatheredBytes = 0;
    this.#budget.give('kept', this.#kept);
  }
}
