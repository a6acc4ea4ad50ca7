/**
 * The port of everything that outlives a process. The shared suite (test/contract/storage/storage.ts) defines the behaviour
 * that every storage implements.
 *
 * Some data belongs to an agent key, which can be any text; keys never collide. Tools, skills, artifacts and deps belong to the
 * storage as a whole, under names that `checkName` allows; a scope has its own skills, artifacts and deps. Failures are
 * `STORAGE_FAILED`, or `STORAGE_UNREACHABLE` if a server does not answer, and name what could not be used.
 */

import { z } from 'zod';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { ArtifactFacts, ArtifactInfo } from '../protocol/namespace-models.ts';
import type { SessionRecord } from './session-record.ts';

export interface Storage extends AsyncDisposable {
  readonly checkpoints: CheckpointStore;
  readonly records: RecordStore;
  readonly events: EventLog;
  /** The lock of a fenced storage. A session with its key uses this lock and does not acquire another. */
  readonly lock?: Lock | undefined;
  readonly locks: Locks;
  readonly transcripts: TranscriptStore;
  /** YAML texts by tool name. */
  readonly tools: TextStore;
  /** Python texts by skill name. */
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
  readonly documents: DocumentStore;
  /**
   * The same storage for the owner of this lock: once another process has the lock, every write fails (`LEASE_LOST`), however
   * late it arrives. Closing it leaves the storage open.
   */
  fenced(lock: Lock): Storage;
  /**
   * This storage with the scope's own skills, artifacts and deps; the rest is shared. A scope's name is any text except the
   * empty one. Scopes never share data with each other or with the unscoped storage. Closing it closes this storage.
   */
  scope(name: string): Storage;
  /** Deletes the skills, artifacts and deps of a scope, including those that this process is writing. */
  deleteScope(name: string): Promise<void>;
  /** Configures `storageFromBootstrap` in another trusted process. */
  toBootstrapConfig(): BootstrapConfig;
  /** Deletes checkpoints, record, events and transcripts of a key. A lock stays with its owner. */
  deleteKey(agentKey: string): Promise<void>;
  /** Drops unfinished checkpoints and releases every lock. Idempotent. */
  close(): Promise<void>;
}

export interface CheckpointStore {
  begin(agentKey: string): Promise<CheckpointWriter>;
  /** In the order in which they were finished, regardless of the clock. Omits damaged checkpoints. */
  list(agentKey: string): Promise<CheckpointSummary[]>;
  get(agentKey: string, id: string): Promise<Manifest | undefined>;
  /** The size of all checkpoints, including their metadata. */
  bytes(agentKey: string): Promise<number>;
  /** The bytes of one segment; undefined if they are truncated, missing or changed. */
  read(agentKey: string, manifest: Manifest, segmentIndex: number): Promise<Uint8Array | undefined>;
  /** The bytes of every segment in order, each as `read` returns it. */
  segments(agentKey: string, manifest: Manifest): AsyncIterable<Uint8Array | undefined>;
  /** The checkpoints whose manifest cannot be read, with the reason. The returned ids can be deleted. */
  damaged(agentKey: string): Promise<DamagedCheckpoint[]>;
  /** False if there was none. */
  delete(agentKey: string, id: string): Promise<boolean>;
}

/** A checkpoint is visible as a whole after `finish`, and not at all before, even if the process is killed. */
export interface CheckpointWriter extends AsyncDisposable {
  /** Appends segment data, one segment after the other. Calls run in order. */
  write(bytes: Uint8Array): Promise<void>;
  /** Fails if the id is taken, or if the segments do not match the written length. */
  finish(manifest: Manifest): Promise<void>;
  /** Leaves nothing behind. Idempotent, and does nothing after `finish`. */
  abort(): Promise<void>;
}

/** Small, so that all summaries of a key fit in memory. */
export type CheckpointSummary = Pick<Manifest, 'id' | 'name' | 'kind' | 'createdAt'>;

export interface DamagedCheckpoint {
  readonly id: string;
  readonly reason: string;
}

/** `get` and `put` keep the fields of a newer version. `get` fails for a record that this version cannot read. */
export interface RecordStore {
  get(agentKey: string): Promise<SessionRecord | undefined>;
  /** Keeps the newest part of the history, see `boundHistory`. Durable when it resolves. */
  put(agentKey: string, record: SessionRecord): Promise<void>;
  /**
   * In the order in which the keys were first stored; all keys or the given ones. Omits unreadable records. One at a time:
   * together, the histories in them are larger than the memory of a server.
   */
  list(options?: ListRecords): AsyncIterable<SessionRecord>;
  damaged(): Promise<DamagedRecord[]>;
  delete(agentKey: string): Promise<boolean>;
}

export interface ListRecords {
  readonly which?: (agentKey: string) => boolean;
}

export interface DamagedRecord {
  readonly agentKey: string;
  readonly reason: string;
}

/** One log per key, numbered from 1 without gaps. */
export interface EventLog {
  /** Appends all events or none, in order. Returns the last number; durable when it resolves. Events are JSON. */
  append(agentKey: string, events: readonly unknown[], options?: AppendOptions): Promise<number>;
  /** The current events in order, starting after `after`. Trimmed events are skipped. */
  read(agentKey: string, options?: EventReadOptions): AsyncIterable<LoggedEvent>;
  /** The number of the last event, even if it was trimmed; 0 if there was none. */
  last(agentKey: string): Promise<number>;
  /** The number of the last event that was trimmed; 0 if none was. */
  floor(agentKey: string): Promise<number>;
  /** The size of the current events as JSON. */
  bytes(agentKey: string): Promise<number>;
  /** Removes the oldest events beyond any of the limits, and returns the floor. */
  trim(agentKey: string, limits: TrimLimits): Promise<number>;
  /** Deletes the log. Numbers start from 1 again. */
  delete(agentKey: string): Promise<boolean>;
}

export interface AppendOptions {
  /** False: the events survive the end of this process, but possibly not a power failure. */
  readonly flushed?: boolean;
}

export interface EventReadOptions {
  readonly after?: number;
  readonly limit?: number;
  /** Ends after one page, even if there are more events. */
  readonly onePage?: boolean;
}

/** How much of a log is in memory while it is read: about this many characters, and at least one event. */
export const PAGE_CHARACTERS = 128 * 1024;

export interface LoggedEvent {
  readonly seq: number;
  /** Milliseconds since 1970, by the clock of the writer. Order is by `seq` alone. */
  readonly at: number;
  readonly event: unknown;
}

export interface TrimLimits {
  readonly maxEvents?: number;
  /** The size of the events as JSON. */
  readonly maxBytes?: number;
  /** Milliseconds since 1970. An event of this time or later stays, and so does everything after it. */
  readonly olderThan?: number;
}

/** One owner per key across all processes. The lock of a process that has ended is free at once. */
export interface Locks {
  /** The id under which `ownerOf` reports this owner. */
  readonly id: string;
  /** `KEY_BUSY` with the owner in `details` (`pid`, `since`, `host`, `command`) if it is held for longer than `waitMs`. */
  acquire(agentKey: string, options?: AcquireLockOptions): Promise<Lock>;
  /** The owner of the lock; undefined if it is free. */
  ownerOf(agentKey: string): Promise<LockOwner | undefined>;
}

export interface LockOwner {
  readonly id: string;
  readonly pid: number;
  readonly host: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

export interface AcquireLockOptions {
  /** How long to wait for another owner. Default: 0, does not wait. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
  /** The command to show to other processes. Default: the program and its subcommand. */
  readonly command?: string;
}

/**
 * `uncertain`: renewal has failed for so long that another owner may have the lock; it may become `held` again. `lost`: another
 * owner has, or had, the lock. A lock that ends with its process is never either.
 */
export type LockState = 'held' | 'uncertain' | 'lost' | 'released';

export interface Lock extends AsyncDisposable {
  readonly key: string;
  /** False once `release` is called, and while it is uncertain or lost. */
  readonly held: boolean;
  readonly state: LockState;
  /** Calls `onChange` at each change other than `release`. Returns a function that stops it. */
  watch(onChange: (state: LockState) => void): () => void;
  /** Idempotent; after a failure it tries again. */
  release(): Promise<void>;
}

/** Texts of at most 1 MB, by name. If they are files, users may also edit them directly. */
export interface TextStore {
  /** Sorted by name. Omits files without a valid name. */
  list(): Promise<StoredText[]>;
  get(name: string): Promise<StoredText | undefined>;
  /**
   * Durable and complete when it resolves. False if `ifAbsent` is set and the name is taken, also for the second of two
   * concurrent calls.
   */
  put(name: string, text: string, options?: { readonly ifAbsent?: boolean }): Promise<boolean>;
  /** False if there was none. */
  delete(name: string): Promise<boolean>;
  /** A text that differs after each change by any process, for caches of what was made from the texts. */
  version(): Promise<string>;
  /** Whether there are at least this many. Cheap for any number. */
  holds(count: number): Promise<boolean>;
}

/** A page of a list sorted by name. */
export interface Page {
  /** Only names after this one. */
  readonly after?: string | undefined;
  /** The most entries. */
  readonly limit?: number | undefined;
  /** Ends the page once its entries reach this many characters of JSON. */
  readonly enough?: number | undefined;
}

export interface StoredText {
  readonly name: string;
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
  /** A path or key that shows where it is stored, for messages. */
  readonly where: string;
  /** Whether it is shared by another user, and so read-only. */
  readonly shared?: true;
}

/** Bytes of any size, by name, in bounded memory. A reader keeps reading the version that it started with. */
export interface ArtifactStore {
  begin(name: string): Promise<ArtifactWriter>;
  get(name: string): Promise<ArtifactInfo | undefined>;
  /** Sorted by name; all, or one page. Reads only the page's entries, but examines all names. */
  list(page?: Page): Promise<ArtifactInfo[]>;
  /** Whether there are at least this many. Cheap for any number. */
  holds(count: number): Promise<boolean>;
  open(name: string): Promise<ArtifactReader | undefined>;
  delete(name: string): Promise<boolean>;
  /** Bytes that no artifact in the list has: of unfinished ones, and of replaced or deleted ones that can still be read. */
  unlistedBytes(): Promise<number>;
}

/** Not visible before `finish`, which replaces an artifact of the same name as a whole. */
export interface ArtifactWriter extends AsyncDisposable {
  write(bytes: Uint8Array): Promise<void>;
  /** Keeps the `createdAt` of the artifact that it replaces. */
  finish(facts: ArtifactFacts): Promise<ArtifactInfo>;
  /** Leaves nothing behind. Idempotent, and does nothing after `finish`. */
  abort(): Promise<void>;
}

export interface ArtifactReader extends AsyncDisposable {
  readonly info: ArtifactInfo;
  /** At most `length` bytes; fewer only at the end. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** The configured packages of kernels: requirements as `parseRequirement` writes them, one per package. */
export interface DepsStore {
  /** Sorted by package. */
  list(): Promise<string[]>;
  /** Replaces the package's requirement. False if it was the same already. */
  add(requirement: string): Promise<boolean>;
  /** The package's name in any spelling. False if it was not configured. */
  remove(name: string): Promise<boolean>;
}

/**
 * JSON documents of at most 1 MB, by collection and id, each with a revision. A collection is 1 to 64 of `a-z 0-9 -`;
 * an id is 1 to 512 printable ASCII characters without blanks. Anything else is `INVALID_NAME`.
 */
export interface DocumentStore {
  /** Throws `STORAGE_FAILED` if it is damaged; it can still be replaced or deleted. */
  get(collection: string, id: string): Promise<StoredDocument | undefined>;
  /** Returns the new revision. If the condition fails, returns undefined and changes nothing. Durable when it resolves. */
  put(collection: string, id: string, value: unknown, condition?: DocumentCondition): Promise<number | undefined>;
  /** False if there was none, or the condition fails. If several callers delete it at once, one gets true. */
  delete(collection: string, id: string, condition?: DocumentCondition): Promise<boolean>;
  /** Sorted by id, in byte order. */
  list(collection: string, options?: ListDocuments): Promise<DocumentPage>;
  /** The number of documents, including damaged ones. Does not read them. */
  count(collection: string, where?: DocumentField): Promise<number>;
}

export interface StoredDocument {
  readonly id: string;
  /** Starts at 1 and grows with each `put`. Unique in the storage, even among deleted documents. */
  readonly revision: number;
  readonly value: unknown;
}

export interface DocumentCondition {
  /** Only if the document has this revision; 0 means only if there is none. */
  readonly ifRevision?: number;
}

/**
 * Selects documents whose field has this value. Only some fields are supported, see collection.ts; others throw
 * `INVALID_OPTIONS`.
 */
export interface DocumentField {
  readonly field: string;
  readonly value: string;
}

export interface ListDocuments {
  /** The cost depends only on the matching documents. */
  readonly where?: DocumentField;
  /** Only ids with this prefix. */
  readonly prefix?: string;
  /** Only ids after this one, which does not have to exist. */
  readonly after?: string;
  /** At most 1000, 100 by default. A page of large documents has fewer. */
  readonly limit?: number;
}

export interface DocumentPage {
  readonly documents: readonly StoredDocument[];
  /** The documents of this page that cannot be read. */
  readonly damaged: readonly DamagedDocument[];
  /** The value for `after`, if there are more. */
  readonly next?: string;
}

export interface DamagedDocument {
  readonly id: string;
  readonly reason: string;
}

/** The transcripts of coding agents, one text per conversation. */
export interface TranscriptStore {
  /** False, without a change, if this revision or a later one is stored already. */
  put(agentKey: string, id: string, transcript: NewTranscript): Promise<boolean>;
  get(agentKey: string, id: string): Promise<StoredTranscript | undefined>;
  /** Ids in the order in which they were first stored. */
  list(agentKey: string): Promise<string[]>;
  /** The size of all transcripts. */
  bytes(agentKey: string): Promise<number>;
  delete(agentKey: string, id: string): Promise<boolean>;
}

export interface NewTranscript {
  readonly revision: number;
  /** Read piece by piece while it is written. */
  readonly text: string | AsyncIterable<string>;
  /** Also changes nothing if the stored text is as long, or longer. Default: false. */
  readonly ifLonger?: boolean;
}

export interface StoredTranscript {
  readonly revision: number;
  /** How many characters the text has. */
  readonly length: number;
  /** In pieces, read from the storage on demand; iterate only once. Can split a surrogate pair. */
  readonly text: AsyncIterable<string>;
}

/** Milliseconds since 1970. It may jump, also backwards. */
export type Clock = () => number;

/** The scope of skills, artifacts and deps, if it is one. */
const scope = z.string().min(1).optional();

export const BootstrapConfig = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('file'), path: z.string().min(1), scope }),
  z.strictObject({ type: z.literal('redis'), url: z.string().min(1), prefix: z.string().min(1), scope }),
]);
export type BootstrapConfig = z.infer<typeof BootstrapConfig>;
