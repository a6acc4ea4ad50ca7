/** The stored definition of a session (its user, key and settings), the collection of all definitions, and `SessionInfo`. */

import { createHash } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Share } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import {
  Labels,
  NewSession,
  SessionChange,
  SessionId,
  type SessionInfo,
  SessionSettings,
} from '../../protocol/session-info.ts';
import { FolderId, folderId } from '../../sandbox/spec.ts';
import { checkOptions, parseOptions } from '../../session/session-options.ts';
import { everyDocument, ParseCache } from '../../storage/collection.ts';
import type { DocumentField, DocumentStore, ListDocuments } from '../../storage/contract.ts';
import { sessionNotFound } from '../access/authorization.ts';
import { newSessionId } from '../ids.ts';

/** As the caller wrote them: a default that changes holds for what nobody has chosen. */
const settings = z.custom<SessionSettings>((value) => SessionSettings.safeParse(value).success, 'must be settings');

export const SessionDefinition = z.object({
  id: SessionId,
  ownerId: z.string(),
  agentKey: z.string(),
  name: z.string().optional(),
  labels: Labels,
  shares: z.array(Share),
  settings,
  /** Which folders of the machine its settings name: what has their paths later may be others. */
  folderIds: z.record(z.string(), FolderId).optional(),
  /** `making` and `deleting` are undone and finished at the next start. */
  life: z.enum(['making', 'present', 'deleting']),
  forkOf: SessionId.optional(),
  /** Its code came from somebody else, and its owner has not confirmed it. */
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
  const facts = { id: newSessionId(), ownerId, agentKey, labels, shares, settings: given };
  return { ...facts, ...(name === undefined ? {} : { name }), life: 'present', createdAt: now, updatedAt: now };
}

/** Where a key is there already: what the second caller asks for must be what the first got. */
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
  const message = `There is a session for the key ${JSON.stringify(there.agentKey)} with other options: ${problems.join(', ')}.`;
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
    ...(called === undefined ? {} : { name: called }),
    labels,
    shares,
    settings,
    updatedAt: Date.now(),
  };
}

const AnyRecord = z.record(z.string(), z.unknown());

/** After the schema has said that it is one. */
function asRecord(value: unknown): Record<string, unknown> {
  return AnyRecord.parse(value);
}

const SESSIONS = 'sessions';
/** Says which session has a key; its id is made of the owner and the key. */
const KEYS = 'session-keys';

export class SessionDefinitions {
  readonly #documents: DocumentStore;
  readonly #cache = new ParseCache<SessionDefinition>();

  constructor(documents: DocumentStore) {
    this.#documents = documents;
  }

  /** Gives the one that is there where the owner has one for this key. */
  async add(definition: SessionDefinition): Promise<SessionDefinition | undefined> {
    const { ownerId, agentKey, id } = definition;
    for (;;) {
      const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      const there = key && (await this.#read(sessionIdOf(key.value)));
      if (there) return there;
      // The key first: one that leads nowhere is free. Another may have taken it for such meanwhile.
      const condition = { ifRevision: key?.revision ?? 0 };
      const mine = await this.#documents.put(KEYS, keyId(ownerId, agentKey), { session: id }, condition);
      if (mine === undefined) continue;
      await this.#documents.put(SESSIONS, id, definition);
      const now = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
      if (now?.revision === mine) return undefined;
      await this.#documents.delete(SESSIONS, id);
    }
  }

  /** `NOT_FOUND` where there is none, or it is being deleted. */
  async get(id: string): Promise<SessionDefinition> {
    const found = await this.#read(id);
    if (found?.life !== 'present') throw sessionNotFound(id);
    return found;
  }

  /** As it is by now; `NOT_FOUND` where it is gone meanwhile, or on its way out. */
  async refetch({ id, life }: SessionDefinition): Promise<SessionDefinition> {
    const found = await this.#read(id);
    if (found?.life !== life) throw sessionNotFound(id);
    return found;
  }

  /** Whether there is one, in whatever state. */
  async exists(id: string): Promise<boolean> {
    return (await this.#documents.get(SESSIONS, id)) !== undefined;
  }

  async find(ownerId: string, agentKey: string): Promise<SessionDefinition | undefined> {
    const key = await this.#documents.get(KEYS, keyId(ownerId, agentKey));
    const found = key && (await this.#read(sessionIdOf(key.value)));
    return found?.life === 'present' ? found : undefined;
  }

  /** In the order in which they were made. */
  async *all(options: Pick<ListDocuments, 'after' | 'where'> = {}): AsyncGenerator<SessionDefinition> {
    for await (const { value } of everyDocument(this.#documents, SESSIONS, options)) {
      const definition = SessionDefinition.safeParse(value);
      if (definition.success) yield definition.data;
    }
  }

  /** Those with one of these values, in the order in which they were made, each once. The others are not read. */
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

  /** Of one owner, with those on their way in or out; of all, without. */
  async count(ownerId?: string): Promise<number> {
    const where = ownerId === undefined ? { field: 'life', value: 'present' } : { field: 'ownerId', value: ownerId };
    return await this.#documents.count(SESSIONS, where);
  }

  /** With what `change` makes of it, whoever else changes it at the same time. `documents` are those of its owner. */
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

  /** The last step of deleting. */
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
  const definition = SessionDefinition.safeParse(value);
  if (definition.success) return definition.data;
  throw new CellaError(
    'STORAGE_FAILED',
    `The definition of session ${id} cannot be read: ${definition.error.message}.`,
  );
}

/** What somebody asks for may be any text. */
function isSessionId(id: string): boolean {
  return SessionDefinition.shape.id.safeParse(id).success;
}

function sessionIdOf(value: unknown): string {
  return typeof value === 'object' && value !== null && 'session' in value ? String(value.session) : '';
}

/** Keys are any text, ids are not. */
function keyId(ownerId: string, agentKey: string): string {
  return createHash('sha256')
    .update(JSON.stringify([ownerId, agentKey]))
    .digest('hex');
}

/** By what was written: a session is told of with every request, and its settings seldom change. */
const checked = new WeakMap<SessionDefinition['settings'], SessionInfo['settings']>();

/** With the defaults for what nobody has chosen. */
export function sessionSettings({ settings }: Pick<SessionDefinition, 'settings'>): SessionInfo['settings'] {
  const known = checked.get(settings) ?? SessionSettings.parse(settings);
  checked.set(settings, known);
  return known;
}

/** With what is known of it while no kernel was opened for it. */
export function toSessionInfo(
  { life, ...definition }: SessionDefinition,
  { state, queued }: Pick<SessionInfo, 'state' | 'queued'> = { state: 'hibernated', queued: 0 },
): SessionInfo {
  return { ...definition, settings: sessionSettings(definition), state, queued };
}

export function withRealFolders<T extends Pick<NewSession, 'cwd' | 'sandbox'>>(wanted: T): T {
  const { cwd, sandbox } = wanted;
  const place = cwd === undefined ? {} : { cwd: realPath(cwd) };
  if (typeof sandbox !== 'object') return { ...wanted, ...place };
  const { readable, writable } = sandbox;
  const folders = {
    ...(readable === undefined ? {} : { readable: readable.map(realPath) }),
    ...(writable === undefined ? {} : { writable: writable.map(realPath) }),
  };
  return { ...wanted, ...place, sandbox: { ...sandbox, ...folders } };
}

/** Which folders they are, by path. */
export function recordFolders({ cwd, sandbox }: Pick<NewSession, 'cwd' | 'sandbox'>): Record<string, FolderId> {
  const { readable = [], writable = [] } = typeof sandbox === 'object' ? sandbox : {};
  const paths = [...(cwd === undefined ? [] : [cwd]), ...readable, ...writable];
  const there = paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  return Object.fromEntries(there.map((path) => [path, folderId(path)]));
}

function realPath(path: string): string {
  try {
    return realpathSync.native(resolve(path));
  } catch {
    return path; // what is wrong with it is told where it is opened
  }
}
