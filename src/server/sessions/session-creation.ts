/** Creates sessions, new or as forks of others: one for each user and agent key. */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { NewFork, NewSession, SessionInfo } from '../../protocol/session-info.ts';
import { checkFoldersAnswer } from '../../sandbox/named-folders.ts';
import { drainingError } from '../server-control.ts';
import type { OpenSessions } from './open-sessions.ts';
import type { ServerSession } from './server-session.ts';
import {
  checkSameSettings,
  newDefinition,
  recordFolders,
  type SessionDefinition,
  type SessionDefinitions,
  withRealFolders,
} from './session-definitions.ts';
import type { SessionDeletion } from './session-deletion.ts';
import type { SessionManagerOptions } from './session-types.ts';

/** `created`: false if the user has it already. */
export interface CreatedSession {
  readonly session: SessionInfo;
  readonly created: boolean;
}

interface SessionCreationParts {
  readonly definitions: SessionDefinitions;
  readonly open: OpenSessions;
  readonly deletions: SessionDeletion;
  readonly admit: SessionManagerOptions['admit'];
  /** Whether the server is shutting down: nothing new starts. */
  readonly draining: () => boolean;
}

export class SessionCreation {
  readonly #parts: SessionCreationParts;
  readonly #pending = new Set<Promise<unknown>>();
  /** Per user. */
  readonly #adding = new KeyedSerialQueue<string>();

  constructor(parts: SessionCreationParts) {
    this.#parts = parts;
  }

  /** Creations that started before the shutdown: it waits for them. */
  get pending(): Iterable<Promise<unknown>> {
    return this.#pending;
  }

  create(ownerId: string, wanted: NewSession): Promise<CreatedSession> {
    return this.#make(() => this.#create(ownerId, wanted));
  }

  fork(id: string, ownerId: string, wanted: NewFork): Promise<ServerSession> {
    return this.#make(() => this.#fork(id, ownerId, wanted));
  }

  async #create(ownerId: string, wanted: NewSession): Promise<CreatedSession> {
    const { definitions, open, deletions } = this.#parts;
    await checkFoldersAnswer(wanted);
    const named = withRealFolders(wanted);
    const definition: SessionDefinition = { ...newDefinition(ownerId, named), folderIds: recordFolders(named) };
    for (;;) {
      const there = await this.#add(definition);
      if (!there) {
        const opened = await open.get(definition.id);
        await opened.logStateChange('created', { by: ownerId });
        return { session: opened.info(), created: true };
      }
      if (there.life === 'present') {
        checkSameSettings(there, definition, wanted);
        return { session: await open.describe(await definitions.get(there.id)), created: false };
      }
      // It is being deleted.
      await deletions.erase(there);
    }
  }

  async #fork(id: string, ownerId: string, wanted: NewFork): Promise<ServerSession> {
    const { definitions, open, deletions } = this.#parts;
    const parent = await open.get(id);
    const { from, replace = false, ...facts } = wanted;
    const { settings, folderIds } = parent.definition;
    // Until it has its kernel, a server that starts would remove it.
    const made = newDefinition(ownerId, { ...settings, ...facts });
    const unconfirmed = isForeign(parent.definition, ownerId) ? true : undefined;
    const definition: SessionDefinition = { ...made, life: 'making', forkOf: id, folderIds, unconfirmed };
    for (let there = await this.#add(definition); there; there = await this.#add(definition)) {
      if (!replace || there.id === id) throw conflict(there);
      await (there.life === 'present' ? deletions.delete(there.id) : deletions.erase(there));
    }
    try {
      // After the fork is stored: see SessionDeletion.
      await definitions.get(id);
      const fork = await open.openNew(definition);
      await parent.forkKernelInto(fork, from);
      // Before it can be found: confirming it moves this kernel out of the parent's sandbox.
      await fork.session();
      const { documents } = fork.storage;
      await fork.applyDefinition(() =>
        definitions.update(fork.id, (made) => ({ ...made, life: 'present' }), documents),
      );
      await fork.logStateChange('created', { subject: id, by: ownerId });
      await parent.logStateChange('forked', { subject: fork.id, by: ownerId });
      return fork;
    } catch (error) {
      await deletions.erase(definition);
      throw error;
    }
  }

  /** Returns the existing session, if any. One at a time per user, so that two never pass the same quota. */
  async #add(definition: SessionDefinition): Promise<SessionDefinition | undefined> {
    const { definitions, admit } = this.#parts;
    const { ownerId, agentKey } = definition;
    return await this.#adding.run(ownerId, async () => {
      const there = await definitions.find(ownerId, agentKey);
      if (there) return there;
      await admit?.(ownerId, await definitions.count(ownerId));
      return await definitions.add(definition);
    });
  }

  async #make<T>(work: () => Promise<T>): Promise<T> {
    if (this.#parts.draining()) throw drainingError();
    const making = work();
    this.#pending.add(making);
    try {
      return await making;
    } catch (error) {
      // It was closed while it was made.
      throw this.#parts.open.isStopped && error instanceof CellaError && error.code === 'SESSION_CLOSED'
        ? drainingError()
        : error;
    } finally {
      this.#pending.delete(making);
    }
  }
}

/** Whether another user's code runs in it. A fork of an unconfirmed fork is unconfirmed too. */
function isForeign({ ownerId, unconfirmed }: SessionDefinition, maker: string): boolean {
  return ownerId !== maker || unconfirmed === true;
}

function conflict({ id, agentKey }: SessionDefinition): CellaError {
  const message = `A session for the key ${JSON.stringify(agentKey)} exists already.`;
  return new CellaError('SESSION_CONFLICT', message, { details: { session: id } });
}
