/** The stored definition of a session (its user, key and settings), the collection of all definitions, and `SessionInfo`. */

import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { omitUndefined } from '../../lib/values.ts';
import { Share } from '../../protocol/access-models.ts';
import { FolderId } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { parseOptions, parseOrThrow } from '../../protocol/parse.ts';
import {
  Labels,
  NewSession,
  SessionChange,
  SessionId,
  type SessionInfo,
  SessionSettings,
} from '../../protocol/session-info.ts';
import { folderId, namedFolders } from '../../sandbox/named-folders.ts';
import { checkOptions } from '../../session/session-options.ts';
import { everyDocument, ParsedDocumentCache } from '../../storage/collection.ts';
import type { DocumentField, DocumentStore, ListDocuments } from '../../storage/contract.ts';
import { sessionNotFound } from '../access/authorization.ts';
import { newSortableId } from '../ids.ts';
import { fingerprint } from './idempotency.ts';

/** Stored as the caller wrote them, so that a changed default applies to options that were not set. */
const settings = z.custom<SessionSettings>((value) => SessionSettings.safeParse(value).success, 'must be settings');

export const SessionDefinition = z.object({
  id: SessionId,
  ownerId: z.string(),
  agentKey: z.string(),
  name: z.string().optional(),
  labels: Labels,
  shares: z.array(Share),
  settings,
  /** Identities of the folders that its settings name: other folders may have these paths later. */
  folderIds: z.record(z.string(), FolderId).optional(),
  /** The next start removes a session that is `making`, and finishes one that is `deleting`. */
  life: z.enum(['making', 'present', 'deleting']),
  forkOf: SessionId.optional(),
  /** Its code came from another user, and its own user has not confirmed it. */
  unconfirmed: z.literal(true).optional(),
  createdAt: z.number(),
  updatedAt: z.number(),
});
export type SessionDefinition = z.infer<typeof SessionDefinition>;

export function newDefinition(ownerId: string, wanted: unknown): SessionDefinition {
  const { agentKey, name, labels = {}, shares = [] } = parseOptions(NewSession, wanted);
  const { agentKey: _key, name: _name, labels: _labels, shares: _shares, ...given } = asRecord(wanted);
  checkOptions({ ...given, agentKey });
  const now = Date.now();
  const facts = { id: newSortableId('ses'), ownerId, agentKey, labels, shares, settings: given };
  return { ...facts, name, life: 'present', createdAt: now, updatedAt: now };
}

/** Throws `SESSION_CONFLICT` if a session of this key exists with other options than requested. */
export function checkSameSettings(there: SessionDefinition, wanted: SessionDefinition, written: NewSession): void {
  const problems: string[] = [];
  const [before, after] = [SessionSettings.parse(there.settings), SessionSettings.parse(wanted.settings)];
  for (const [option, value] of Object.entries(after)) {
    if (!isDeepStrictEqual(value, new Map(Object.entries(before)).get(option))) problems.push(option);
  }
  for (const option of ['name', 'labels', 'shares'] as const) {
    if (written[option] !== undefined && !isDeepStrictEqual(there[option], wanted[option])) problems.push(option);
  }
  if (problems.length === 0) return;
  const message = `A session for the key ${JSON.stringify(there.agentKey)} exists with other options: ${problems.join(', ')}.`;
  throw new CellaError('SESSION_CONFLICT', message, { details: { session: there.id, options: problems } });
}

export function applyChange(there: SessionDefinition, change: unknown): SessionDefinition {
  const { name, labels = there.labels, shares = there.shares } = parseOptions(SessionChange, change);
  const { name: _name, labels: _labels, shares: _shares, ...given } = asRecord(change);
  const settings = { ...there.settings, ...given };
  checkOptions({ ...settings, agentKey: there.agentKey });
  const { name: before, ...rest } = there;
  const called = name === undefined ? before : (name ?? undefined);
  return {
    ...rest,
    name: called,
    labels,
    shares,
    settings,
    updatedAt: Date.now(),
  };
}

const AnyRecord = z.record(z.string(), z.unknown());

/** The schema was checked before. */
function asRecord(value: unknown): Record<string, unknown> {
  return AnyRecord.parse(value);
}

const SESSIONS = 'sessions';
/** The session of each key, by a digest of user and key. */
const KEYS = 'session-keys';

export class SessionDefinitions {
  readonly #documents: DocumentStore;
  readonly #cache = new ParsedDocumentCache<SessionDefinition>();

  constructor(documents: DocumentStore) {
    this.#documents = documents;
  }

  /** Returns the existing definition if the user has one for this key. */
  async add(definition: SessionDefinition): Promise<SessionDefinition | undefined> {
    const { ownerId, agentKey, id } = definition;
    for (;;) {
      const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      const there = key && (await this.#read(sessionIdOf(key.value)));
      if (there) return there;
      // The key is written first: a key without a session is free, and another server may take it in the meantime.
      const condition = { ifRevision: key?.revision ?? 0 };
      const mine = await this.#documents.put(KEYS, keyId(ownerId, agentKey), { session: id }, condition);
      if (mine === undefined) continue;
      await this.#documents.put(SESSIONS, id, definition);
      const now = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      if (now?.revision === mine) return undefined;
      await this.#documents.delete(SESSIONS, id);
    }
  }

  /** Throws `NOT_FOUND` if there is none, or it is being deleted. */
  async get(id: string): Promise<SessionDefinition> {
    const found = await this.#read(id);
    if (found?.life !== 'present') throw sessionNotFound(id);
    return found;
  }

  /** The current version. Throws `NOT_FOUND` if it was deleted meanwhile, or is being deleted. */
  async refetch({ id, life }: SessionDefinition): Promise<SessionDefinition> {
    const found = await this.#read(id);
    if (found?.life !== life) throw sessionNotFound(id);
    return found;
  }

  /** Whether there is one, in any state. */
  async exists(id: string): Promise<boolean> {
    return (await this.#documents.get(SESSIONS, id)) !== undefined;
  }

  async find(ownerId: string, agentKey: string): Promise<SessionDefinition | undefined> {
    const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
    const found = key && (await this.#read(sessionIdOf(key.value)));
    return found?.life === 'present' ? found : undefined;
  }

  /** In the order of creation. */
  async *all(options: Pick<ListDocuments, 'after' | 'where'> = {}): AsyncGenerator<SessionDefinition> {
    for await (const { value } of everyDocument(this.#documents, SESSIONS, options)) {
      const definition = SessionDefinition.safeParse(value);
      if (definition.success) yield definition.data;
    }
  }

  /** Definitions that have one of these values, oldest first, each once. Others are not read. */
  async *where(fields: readonly DocumentField[], after = ''): AsyncGenerator<SessionDefinition> {
    const sources = fields.map((where) => this.all({ after, where }));
    const heads = await Promise.all(sources.map(async (source) => (await source.next()).value));
    for (;;) {
      const first = heads.reduce((one, other) => (other && (!one || other.id < one.id) ? other : one), undefined);
      if (!first) return;
      yield first;
      for (const [at, source] of sources.entries()) {
        if (heads[at]?.id === first.id) heads[at] = (await source.next()).value;
      }
    }
  }

  /** For one user, includes those being created or deleted; for all users, excludes them. */
  async count(ownerId?: string): Promise<number> {
    const where = ownerId === undefined ? { field: 'life', value: 'present' } : { field: 'ownerId', value: ownerId };
    return await this.#documents.count(SESSIONS, where);
  }

  /** Applies `change`, also if others change it at the same time. `documents`: fenced by the lock of its owner. */
  async update(
    id: string,
    change: (there: SessionDefinition) => SessionDefinition,
    documents: DocumentStore = this.#documents,
  ): Promise<SessionDefinition> {
    for (;;) {
      const document = await documents.get(SESSIONS, id);
      if (!document) throw sessionNotFound(id);
      const next = change(parseDefinition(document.value, id));
      const condition = { ifRevision: document.revision };
      if ((await documents.put(SESSIONS, id, next, condition)) !== undefined) return next;
    }
  }

  /** The last step of a deletion. */
  async remove({ id, ownerId, agentKey }: SessionDefinition): Promise<void> {
    const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
    if (key && sessionIdOf(key.value) === id) {
      await this.#documents.delete(KEYS, keyId(ownerId, agentKey), { ifRevision: key.revision });
    }
    await this.#documents.delete(SESSIONS, id);
  }

  async #read(id: string): Promise<SessionDefinition | undefined> {
    const document = isSessionId(id) ? await this.#documents.get(SESSIONS, id) : undefined;
    return document && this.#cache.get(id, document.revision, () => parseDefinition(document.value, id));
  }
}

function parseDefinition(value: unknown, id: string): SessionDefinition {
  return parseOrThrow(SessionDefinition, value, ({ message }) => {
    return new CellaError('STORAGE_FAILED', `The definition of session ${id} cannot be read: ${message}.`);
  });
}

/** Ids in requests may be any text. */
function isSessionId(id: string): boolean {
  return SessionDefinition.shape.id.safeParse(id).success;
}

function sessionIdOf(value: unknown): string {
  return typeof value === 'object' && value !== null && 'session' in value ? String(value.session) : '';
}

/** Keys may be any text, ids may not. */
function keyId(ownerId: string, agentKey: string): string {
  return fingerprint(ownerId, agentKey);
}

/** Checked settings by stored settings: they are needed with every request, and rarely change. */
const checked = new WeakMap<SessionDefinition['settings'], SessionInfo['settings']>();

/** With all defaults. */
function sessionSettings({ settings }: Pick<SessionDefinition, 'settings'>): SessionInfo['settings'] {
  const known = checked.get(settings) ?? SessionSettings.parse(settings);
  checked.set(settings, known);
  return known;
}

/** The definition of an open session as it is now. */
export class CurrentDefinition {
  #value: SessionDefinition;
  #isStored = true;
  #updating: Promise<void> = Promise.resolve();

  constructor(value: SessionDefinition) {
    this.#value = value;
  }

  get value(): SessionDefinition {
    return this.#value;
  }

  /** False while a change is written, and after one failed: storage may have it or not. */
  get isStored(): boolean {
    return this.#isStored;
  }

  /** With all defaults. */
  get settings(): SessionInfo['settings'] {
    return sessionSettings(this.#value);
  }

  /** Changes are applied one after the other. */
  async update(change: () => Promise<SessionDefinition>): Promise<void> {
    const updated = this.#updating.then(async () => {
      this.#isStored = false;
      this.#value = await change();
      this.#isStored = true;
    });
    this.#updating = updated.catch(() => {}); // its caller gets the error
    await updated;
  }
}

/** `state` and `queued` default to those of a session that is not open. */
export function toSessionInfo(
  { life, ...definition }: SessionDefinition,
  { state, queued }: Pick<SessionInfo, 'state' | 'queued'> = { state: 'hibernated', queued: 0 },
): SessionInfo {
  return { ...definition, settings: sessionSettings(definition), state, queued };
}

export function withRealFolders<T extends Pick<NewSession, 'cwd' | 'sandbox'>>(wanted: T): T {
  const { cwd, sandbox } = wanted;
  const folder = omitUndefined({ cwd: cwd === undefined ? undefined : realPath(cwd) });
  if (typeof sandbox !== 'object') return { ...wanted, ...folder };
  const { readable, writable } = sandbox;
  const folders = omitUndefined({ readable: readable?.map(realPath), writable: writable?.map(realPath) });
  return { ...wanted, ...folder, sandbox: { ...sandbox, ...folders } };
}

/** Identities of the named folders, by path. */
export function recordFolders(settings: Pick<NewSession, 'cwd' | 'sandbox'>): Record<string, FolderId> {
  const there = namedFolders(settings).filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  return Object.fromEntries(there.map((path) => [path, folderId(path)]));
}

function realPath(path: string): string {
  try {
    return realpathSync.native(resolve(path));
  } catch {
    return path; // opening it gives the error
  }
}
