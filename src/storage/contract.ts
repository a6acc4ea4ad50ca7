/**
 * What outlives a process. Every storage does this, and the shared suite (test/contract/storage/storage.ts) says what it means.
 *
 * Some of it is by agent key, which is any text; two keys never meet. Tools, skills, artifacts and deps belong to the
 * storage as a whole, by names that `checkName` allows; a scope has skills, artifacts and deps of its own. Failures are
 * `STORAGE_FAILED`, or `STORAGE_UNREACHABLE` if a server does not answer, and name what could not be used.
 */

import type { Manifest } from '../protocol/kernel-state.ts';
import type { ArtifactFacts, ArtifactInfo } from '../protocol/namespace-models.ts';
import type { BootstrapConfig } from './bootstrap-config.ts';
import type { SessionRecord } from './session-record.ts';

export interface Storage extends AsyncDisposable {
  readonly checkpoints: CheckpointStore;
  readonly records: RecordStore;
  readonly events: EventLog;
  readonly locks: Locks;
  readonly transcripts: TranscriptStore;
  /** YAML, by the tool's name. */
  readonly tools: TextStore;
  /** Python, by the skill's name. */
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
  readonly documents: DocumentStore;
  /**
   * The same storage for the owner of this lock: once another process has it, nothing can be written here any more
   * (`LEASE_LOST`), however late it arrives. The key of the lock can be acquired again here, by one at a time. Closing
   * it leaves the storage open.
   */
  fenced(lock: Lock): Storage;
  /**
   * This storage with other skills, artifacts and deps: those of the scope, which is any text but the empty one. Two
   * scopes never meet, and none meets what is in no scope. All else is the same. Closing it closes this storage.
   */
  scope(name: string): Storage;
  /** Skills, artifacts and deps of a scope, also those that are being written here. */
  deleteScope(name: string): Promise<void>;
  /** For `storageFromBootstrap` in another trusted process. */
  toBootstrapConfig(): BootstrapConfig;
  /** Checkpoints, record, events and transcripts of a key. A lock stays with its owner. */
  deleteAgent(agentKey: string): Promise<void>;
  /** Drops unfinished checkpoints and releases every lock. May be called again. */
  close(): Promise<void>;
}

export interface CheckpointStore {
  begin(agentKey: string): Promise<CheckpointWriter>;
  /** In the order in which they were finished, whatever the clock said. Damaged ones are left out. */
  list(agentKey: string): Promise<Manifest[]>;
  get(agentKey: string, id: string): Promise<Manifest | undefined>;
  /** The bytes of one segment, or undefined where they are cut, missing or changed. */
  read(agentKey: string, manifest: Manifest, segmentIndex: number): Promise<Uint8Array | undefined>;
  /** The bytes of every segment in order, each as `read` would give it. */
  segments(agentKey: string, manifest: Manifest): AsyncIterable<Uint8Array | undefined>;
  /** The checkpoints whose manifest cannot be read, with the reason. They can be deleted by the id given here. */
  damaged(agentKey: string): Promise<DamagedCheckpoint[]>;
  /** False if there was none. */
  delete(agentKey: string, id: string): Promise<boolean>;
}

/** A checkpoint is visible as a whole after `finish`, and not at all before, even if the process is killed. */
export interface CheckpointWriter extends AsyncDisposable {
  /** Appends to the data: the segments, one after the other. Calls are carried out in order. */
  write(bytes: Uint8Array): Promise<void>;
  /** Refused where the id is taken, or where the segments are not as long as what was written. */
  finish(manifest: Manifest): Promise<void>;
  /** Leaves nothing behind. May be called again, and does nothing after `finish`. */
  abort(): Promise<void>;
}

export interface DamagedCheckpoint {
  readonly id: string;
  readonly reason: string;
}

/** Fields of a newer version survive `get` and `put`. A record that this version cannot read is refused by `get`. */
export interface RecordStore {
  get(agentKey: string): Promise<SessionRecord | undefined>;
  /** Keeps the newest of the history, see `boundHistory`. Durable when it resolves. */
  put(agentKey: string, record: SessionRecord): Promise<void>;
  /** In the order in which the keys were first put, all or only those of some keys. Those that cannot be read are left out. */
  list(options?: ListRecords): Promise<SessionRecord[]>;
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

/** One log for each key, numbered from 1 without a gap. */
export interface EventLog {
  /** Adds all of them or none, in this order. Gives the last number; durable when it resolves. Events are JSON. */
  append(agentKey: string, events: readonly unknown[], options?: AppendOptions): Promise<number>;
  /** What is there now, in order, from the first number after `after` that was not trimmed. */
  read(agentKey: string, options?: ReadOptions): AsyncIterable<LoggedEvent>;
  /** The number of the last event, even if it was trimmed; 0 if there was none. */
  last(agentKey: string): Promise<number>;
  /** The number of the last event that was trimmed; 0 if none was. */
  floor(agentKey: string): Promise<number>;
  /** Of the events that are there, as JSON. */
  bytes(agentKey: string): Promise<number>;
  /** Removes the oldest events that one of the limits does not allow, and gives the floor. */
  trim(agentKey: string, limits: TrimLimits): Promise<number>;
  /** Forgets the log: numbers start from 1 again. */
  delete(agentKey: string): Promise<boolean>;
}

export interface AppendOptions {
  /** False: what it resolves with survives the end of this process, and may not survive a loss of power. */
  readonly flushed?: boolean;
}

export interface ReadOptions {
  readonly after?: number;
  readonly limit?: number;
}

export interface LoggedEvent {
  readonly seq: number;
  /** Milliseconds since 1970, by the clock of the writer. Order is by `seq` alone. */
  readonly at: number;
  readonly event: unknown;
}

export interface TrimLimits {
  readonly maxEvents?: number;
  /** Of the events as JSON. */
  readonly maxBytes?: number;
  /** Milliseconds since 1970. An event of this time or later stays, and so does everything after it. */
  readonly olderThan?: number;
}

/** One owner for each key, on all processes. The lock of a process that has ended is free at once. */
export interface Locks {
  /** Whose locks these are: what `ownerOf` tells of them. */
  readonly id: string;
  /** `AGENT_BUSY` with the owner in `details` (`pid`, `since`, `host`, `command`) if it is held for longer than `waitMs`. */
  acquire(agentKey: string, options?: AcquireLockOptions): Promise<Lock>;
  /** Its owner; undefined if it is free. */
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
  /** How long to wait for another owner; 0, the default, means not at all. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
  /** The command that others see; by default the program and its subcommand. */
  readonly command?: string;
}

/**
 * `uncertain`: it could not be renewed for so long that another may have it by now; it may turn out to be held. `lost`:
 * another has it, or had it meanwhile. A lock that ends with its process is neither.
 */
export type LockState = 'held' | 'uncertain' | 'lost' | 'released';

export interface Lock extends AsyncDisposable {
  readonly key: string;
  /** False once `release` is called, and while it is uncertain or lost. */
  readonly held: boolean;
  readonly state: LockState;
  /** Calls `onChange` at each change other than `release`. Returns a function that stops it. */
  watch(onChange: (state: LockState) => void): () => void;
  /** May be called again; if it failed, it tries again. */
  release(): Promise<void>;
}

/** Texts of at most 1 MB, by name. A person may change them behind our back where they are files. */
export interface TextStore {
  /** By name. Files that have no valid name are left out. */
  list(): Promise<StoredText[]>;
  get(name: string): Promise<StoredText | undefined>;
  /** Durable and whole when it resolves. False where `ifAbsent` is set and the name is taken, by one of two at once too. */
  put(name: string, text: string, options?: { readonly ifAbsent?: boolean }): Promise<boolean>;
  /** False if there was none. */
  delete(name: string): Promise<boolean>;
  /** Another text after each change, by whomever: for those who keep what they have made of these texts. */
  version(): Promise<string>;
  /** Whether there are so many, or more. Cheap, also with many of them. */
  holds(count: number): Promise<boolean>;
}

/** A part of what there is, by name. */
export interface Page {
  /** Only what comes after this name. */
  readonly after?: string | undefined;
  /** At most so many. */
  readonly limit?: number | undefined;
  /** No more of them once they are so many characters of JSON together. */
  readonly enough?: number | undefined;
}

export interface StoredText {
  readonly name: string;
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
  /** Where a person finds it, for messages: a path, or a key. */
  readonly where: string;
  /** Whether it is another's, to be read and not to be changed. */
  readonly shared?: true;
}

/** Bytes of any size, by name, in bounded memory. A reader that has begun reads on what was there when it began. */
export interface ArtifactStore {
  begin(name: string): Promise<ArtifactWriter>;
  get(name: string): Promise<ArtifactInfo | undefined>;
  /** By name. All, or a page: only what is in it is read, but all names are looked at. */
  list(page?: Page): Promise<ArtifactInfo[]>;
  /** Whether there are so many, or more. Cheap, also with many of them. */
  holds(count: number): Promise<boolean>;
  open(name: string): Promise<ArtifactReader | undefined>;
  delete(name: string): Promise<boolean>;
}

/** It is not visible before `finish`. Then it replaces what had the name before, as a whole. */
export interface ArtifactWriter extends AsyncDisposable {
  write(bytes: Uint8Array): Promise<void>;
  /** `createdAt` is that of the one that it replaces. */
  finish(facts: ArtifactFacts): Promise<ArtifactInfo>;
  /** Leaves nothing behind. May be called again, and does nothing after `finish`. */
  abort(): Promise<void>;
}

export interface ArtifactReader extends AsyncDisposable {
  readonly info: ArtifactInfo;
  /** At most `length` bytes; fewer only at the end. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** The packages that kernels are to have: requirements as `parseRequirement` writes them, one for each package. */
export interface DepsStore {
  /** By package. */
  list(): Promise<string[]>;
  /** Replaces the requirement of that package. False if it was the same already. */
  add(requirement: string): Promise<boolean>;
  /** By the package's name, however it is spelled. False if it was not there. */
  remove(name: string): Promise<boolean>;
}

/**
 * JSON documents of at most 1 MB, by collection and id, each with a revision. A collection is 1 to 64 of `a-z 0-9 -`;
 * an id is 1 to 512 printable ASCII characters without blanks. Anything else is `INVALID_NAME`.
 */
export interface DocumentStore {
  /** `STORAGE_FAILED` if it is damaged; it can still be put again or deleted. */
  get(collection: string, id: string): Promise<StoredDocument | undefined>;
  /** Gives the revision it has then, or undefined, and nothing is changed, where the condition does not hold. Durable when it resolves. */
  put(collection: string, id: string, value: unknown, condition?: DocumentCondition): Promise<number | undefined>;
  /** False if there was none, or the condition does not hold. If several delete it at once, one gets true. */
  delete(collection: string, id: string, condition?: DocumentCondition): Promise<boolean>;
  /** In the order of their ids, by bytes. */
  list(collection: string, options?: ListDocuments): Promise<DocumentPage>;
  /** How many there are, damaged ones included. Does not read them. */
  count(collection: string, where?: DocumentField): Promise<number>;
}

export interface StoredDocument {
  readonly id: string;
  /** From 1 on, and larger after each `put`. No two documents of a storage ever have the same, deleted ones included. */
  readonly revision: number;
  readonly value: unknown;
}

export interface DocumentCondition {
  /** Only if the document has this revision; 0 means only if there is none. */
  readonly ifRevision?: number;
}

/** Of documents whose field has this value. Only some fields can be asked for, see document-format.ts; else `INVALID_OPTIONS`. */
export interface DocumentField {
  readonly field: string;
  readonly value: string;
}

export interface ListDocuments {
  /** Costs what it gives, however many others there are. */
  readonly where?: DocumentField;
  /** Only ids that begin with it. */
  readonly prefix?: string;
  /** Only ids after this one, which need not be there. */
  readonly after?: string;
  /** At most 1000, and 100 by default. A page of large documents has fewer. */
  readonly limit?: number;
}

export interface DocumentPage {
  readonly documents: readonly StoredDocument[];
  /** Those of this page that cannot be read. */
  readonly damaged: readonly DamagedDocument[];
  /** For `after`, if there are more. */
  readonly next?: string;
}

export interface DamagedDocument {
  readonly id: string;
  readonly reason: string;
}

/** What coding agents write down of their conversations, as one text for each conversation. */
export interface TranscriptStore {
  /** False, without a change, if this revision or a later one is stored already. */
  put(agentKey: string, id: string, transcript: { revision: number; text: string }): Promise<boolean>;
  get(agentKey: string, id: string): Promise<{ revision: number; text: string } | undefined>;
  /** Ids, in the order in which they were first put. */
  list(agentKey: string): Promise<string[]>;
  /** How much room all of them take. */
  bytes(agentKey: string): Promise<number>;
  delete(agentKey: string, id: string): Promise<boolean>;
}

/** Milliseconds since 1970. It may jump, also backwards. */
export type Clock = () => number;
