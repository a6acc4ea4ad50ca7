/** The durable checkpoints of one agent key: written from a kernel to storage, and loaded into another kernel. */

import { createHash, type Hash, randomUUID } from 'node:crypto';
import type { Kernel } from '../kernel/kernel.ts';
import type { LoadableSegment } from '../kernel/kernel-requests.ts';
import { giveWay, inSlices } from '../lib/event-loop.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Resumed } from '../protocol/execution-events.ts';
import { FrameError, KernelLimit } from '../protocol/kernel-frames.ts';
import type { PartHeader } from '../protocol/kernel-payloads.ts';
import {
  type LostVariable,
  listLost,
  listRestored,
  listSaved,
  type Manifest,
  Segment,
} from '../protocol/kernel-state.ts';
import type { CheckpointStore, CheckpointSummary, CheckpointWriter, Clock } from '../storage/contract.ts';

interface DurableCheckpointSettings {
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

/** The kind of the segment that stores the working folder. */
const FOLDER = 'cwd';
/** How many automatic saves to keep: the newest may turn out to be damaged. */
const SAVES_KEPT = 2;
const WRITE_BYTES = 1024 * 1024;
/** The space for the parts of a checkpoint besides its variables, and the fixed cost of each part. */
const OVERHEAD_BYTES = 64 * 1024 * 1024;
const SEGMENT_COST = 256;
/** One turn of the event loop may read megabytes: tens of thousands of small parts. */
const PARTS_AT_ONCE = 250;
/** Estimated memory of a segment besides its names, and of each name besides its text. */
const HELD_SEGMENT = 512;
const HELD_NAME = 64;
/** A function has two segments, its pickle and its source, and some segments belong to no variable. */
const MOST_SEGMENTS = 2 * KernelLimit.mostVariables + 16;
const MOST_SEGMENT_NAMES = 2 * KernelLimit.mostVariables;
const MOST_SEGMENT_NAME_BYTES = 2 * KernelLimit.mostNameBytes;
/** Larger tables are stored outside the manifest, because listing checkpoints reads all manifests. */
const MOST_LISTED_SEGMENTS = 100;
const MOST_LISTED_NAME_BYTES = 16 * 1024;

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

  /** From now on, a checkpoint's working folder is not restored, because the session has a new one. */
  ignoreSavedCwd(): void {
    this.#ignoresSavedCwd = true;
  }

  /** Saves the variables of an idle kernel, which cannot do anything else meanwhile. */
  async write(kernel: Kernel, { kind, name, execution }: CheckpointLabel): Promise<Manifest> {
    const { limitBytes, seconds, clock } = this.#settings;
    await using writer = await this.#store.begin(this.#agentKey);
    using intake = new SegmentWriter(writer, kernel.budget, limitBytes + OVERHEAD_BYTES);
    const { python, saved, lost, moreLost, failed } = await kernel.requests.save(
      { limitBytes, seconds },
      (header, bytes) => intake.take(header, bytes),
    );
    if (failed !== undefined) {
      throw new CellaError('SAVE_FAILED', `The variables of this kernel could not be saved: ${failed}.`);
    }
    const names = { ...listSaved(saved), ...listLost(lost, moreLost) };
    const listed = await intake.finish();
    const isLong = listed.table !== undefined || names.moreSaved !== undefined || names.moreLost !== undefined;
    const manifest: Manifest = {
      format: isLong ? 2 : 1,
      id: randomUUID(),
      name,
      kind,
      createdAt: Math.max(0, Math.round(clock())),
      python,
      execution,
      ...names,
      saved: [...names.saved],
      lost: [...names.lost],
      ...listed,
    };
    await writer.finish(manifest);
    if (kind === 'save') await this.#prune();
    return manifest;
  }

  /** Replaces the variables of a kernel with those of a checkpoint. */
  async read(kernel: Kernel, manifest: Manifest): Promise<Omit<Resumed, 'savedAgoMs'>> {
    const damaged: LostVariable[] = [];
    const whole = await this.#withSegments(manifest);
    const loaded = await kernel.requests.load(
      manifest.python,
      this.#segments(whole, damaged),
      this.#settings.seconds * 1000,
    );
    const restored = new Set(loaded.restored);
    // A variable may have several parts; it is listed once.
    const all = new Map([...loaded.lost, ...damaged].map((one) => [one.name, one]));
    const lost = [...all.values()].filter(({ name }) => !restored.has(name));
    if (restored.size === 0 && damaged.length > 0) throw damagedError(manifest, lost);
    return { ...listRestored(loaded.restored), ...listLost(lost, loaded.moreLost) };
  }

  /** Rejects if no variable of a checkpoint can be read. Called before the current variables are cleared. */
  async check(manifest: Manifest): Promise<void> {
    const lost: LostVariable[] = [];
    const whole = await this.#withSegments(manifest);
    for (const [index, { names }] of whole.segments.entries()) {
      if (names.length === 0) continue;
      if (await this.#store.read(this.#agentKey, whole, index)) return;
      lost.push(...names.map(damagedVariable));
    }
    if (lost.length > 0) throw damagedError(manifest, lost);
  }

  /** How long ago a checkpoint was made; 0 if the clock was set back since. */
  age(manifest: Manifest): number {
    return Math.max(0, this.#settings.clock() - manifest.createdAt);
  }

  list(): Promise<CheckpointSummary[]> {
    return this.#store.list(this.#agentKey);
  }

  /** Undefined if it is gone or damaged. */
  get(id: string): Promise<Manifest | undefined> {
    return this.#store.get(this.#agentKey, id);
  }

  /** The saves, newest first. */
  async saves(): Promise<Manifest[]> {
    const saves = await Promise.all((await this.#listSaves()).map(({ id }) => this.get(id)));
    return saves.filter((save) => save !== undefined);
  }

  async #listSaves(): Promise<CheckpointSummary[]> {
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
    for (const old of (await this.#listSaves()).slice(keep)) await this.delete(old.id);
  }

  /** Adds the segments that are listed after its data. */
  async #withSegments(manifest: Manifest): Promise<Manifest> {
    const { table, bytes } = manifest;
    if (!table) return manifest;
    const part = { kind: 'table', names: [], portable: true };
    const parts = [
      { ...part, bytes, sha256: '' },
      { ...part, ...table },
    ];
    const lines = await this.#store.read(this.#agentKey, { ...manifest, segments: parts }, 1);
    const segments = lines && (await parseTable(lines));
    if (!segments) throw damagedError(manifest, [damagedVariable('*')]);
    return { ...manifest, segments };
  }

  async *#segments(manifest: Manifest, damaged: LostVariable[]): AsyncGenerator<LoadableSegment> {
    let index = 0;
    for await (const bytes of this.#store.segments(this.#agentKey, manifest)) {
      const { kind, names, portable } = manifest.segments[index++] as Segment;
      if (kind === FOLDER && this.#ignoresSavedCwd) continue;
      if (bytes) yield { header: { kind, names, portable }, bytes };
      else damaged.push(...names.map(damagedVariable));
    }
  }
}

const damagedVariable = (name: string): LostVariable => ({ name, reason: 'its part of the checkpoint is damaged' });

function damagedError({ id }: Manifest, lost: readonly LostVariable[]): CellaError {
  const message = `The checkpoint ${id} cannot be read: its data is damaged.`;
  return new CellaError('CHECKPOINT_DAMAGED', message, { details: { id, ...listLost(lost) } });
}

/** Undefined if it differs from what was written. */
async function parseTable(lines: Uint8Array): Promise<Segment[] | undefined> {
  const segments: Segment[] = [];
  const text = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
  for (let from = 0; from < text.length; ) {
    await giveWay();
    const end = text.indexOf('\n', from);
    const parsed = Segment.safeParse(tryParseJson(text.toString('utf8', from, end < 0 ? text.length : end)));
    if (end < 0 || !parsed.success) return undefined;
    segments.push(parsed.data);
    from = end + 1;
  }
  return segments;
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
  #parts = 0;
  #names = 0;
  #nameBytes = 0;
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
    if (this.#total > this.#mostBytes) throw new FrameError('a checkpoint over its size limit');
    this.#hash ??= createHash('sha256');
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    this.#gather(bytes);
    this.#parts += 1;
    if (this.#parts % PARTS_AT_ONCE === 0) this.#budget.rest();
    if (!last) return;
    this.#names += names.length;
    this.#nameBytes = names.reduce((total, { length }) => total + length, this.#nameBytes);
    const tooMany = this.#segments.length >= MOST_SEGMENTS || this.#names > MOST_SEGMENT_NAMES;
    if (tooMany || this.#nameBytes > MOST_SEGMENT_NAME_BYTES) {
      throw new FrameError('a checkpoint with too many segments or names');
    }
    this.#kept += headBytes;
    this.#budget.take('kept', headBytes);
    this.#segments.push({ kind, names, portable, bytes: this.#bytes, sha256: this.#hash.digest('hex') });
    this.#hash = undefined;
    this.#bytes = 0;
  }

  /** The manifest's fields about the segments. */
  async finish(): Promise<Pick<Manifest, 'bytes' | 'segments' | 'table'>> {
    const segments = this.#segments;
    const bytes = segments.reduce((total, segment) => total + segment.bytes, 0);
    const isShort = segments.length <= MOST_LISTED_SEGMENTS && this.#nameBytes <= MOST_LISTED_NAME_BYTES;
    const table = isShort ? undefined : await this.#writeTable();
    this.#pass();
    await this.#written;
    if (this.#problem !== undefined) throw this.#problem;
    return table ? { bytes, segments: [], table } : { bytes, segments };
  }

  async #writeTable(): Promise<Manifest['table']> {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const segment of inSlices(this.#segments)) {
      const line = Buffer.from(`${JSON.stringify(segment)}\n`);
      hash.update(line);
      bytes += line.length;
      this.#gather(line);
    }
    return { bytes, sha256: hash.digest('hex') };
  }

  #gather(bytes: Buffer): void {
    this.#budget.take('waiting', bytes.length + SEGMENT_COST);
    this.#gathered.push(bytes);
    this.#gatheredBytes += bytes.length + SEGMENT_COST;
    if (this.#gatheredBytes >= WRITE_BYTES) this.#pass();
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
