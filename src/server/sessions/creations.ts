/** Sessions that come to be, for an owner or as forks of others: one for each key. */

import { CellaError } from '../../protocol/errors.ts';
import type { NewFork, NewSession, SessionInfo } from '../../protocol/session-info.ts';
import { stopping } from '../stopping.ts';
import { checkSame, type Definition, newDefinition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import type { Deletions } from './deletions.ts';
import type { HostOptions } from './host-options.ts';
import type { HostedSession } from './hosted-session.ts';
import type { Listing } from './listing.ts';
import type { OpenSessions } from './open-sessions.ts';
import { recordFolders, withRealFolders } from './real-folders.ts';

/** `created` is false where the owner has it already. */
export interface Created {
  readonly session: SessionInfo;
  readonly created: boolean;
}

export interface CreationsParts {
  readonly definitions: Definitions;
  readonly open: OpenSessions;
  readonly deletions: Deletions;
  readonly listing: Listing;
  readonly admit: HostOptions['admit'];
  /** Whether the server is going down: nothing new begins. */
  readonly stopping: () => boolean;
}

export class Creations {
  readonly #parts: CreationsParts;
  readonly #pending = new Set<Promise<unknown>>();
  /** By owner. */
  readonly #adding = new Map<string, Promise<void>>();

  constructor(parts: CreationsParts) {
    this.#parts = parts;
  }

  /** Those that were asked for before the server began to end: it waits for them. */
  get pending(): Iterable<Promise<unknown>> {
    return this.#pending;
  }

  create(ownerId: string, wanted: NewSession): Promise<Created> {
    return this.#make(() => this.#create(ownerId, wanted));
  }

  fork(id: string, ownerId: string, wanted: NewFork): Promise<HostedSession> {
    return this.#make(() => this.#fork(id, ownerId, wanted));
  }

  async #create(ownerId: string, wanted: NewSession): Promise<Created> {
    const { definitions, open, deletions, listing } = this.#parts;
    const named = withRealFolders(wanted);
    const definition: Definition = { ...newDefinition(ownerId, named), folderIds: recordFolders(named) };
    for (;;) {
      const there = await this.#add(definition);
      if (!there) {
        const hosted = await open.get(definition.id);
        await hosted.note('created', { by: ownerId });
        return { session: await hosted.info(), created: true };
      }
      if (there.life === 'present') {
        checkSame(there, definition, wanted);
        return { session: await listing.describe(await definitions.get(there.id)), created: false };
      }
      // It is on its way out.
      await deletions.erase(there);
    }
  }

  async #fork(id: string, ownerId: string, wanted: NewFork): Promise<HostedSession> {
    const { definitions, open, deletions } = this.#parts;
    const parent = await open.get(id);
    const { from, replace = false, ...facts } = wanted;
    const { settings, folderIds } = parent.definition;
    // Until the kernel is there, a server that starts would take it away again.
    const made = newDefinition(ownerId, { ...settings, ...facts });
    const definition: Definition = {
      ...{ ...made, life: 'making', forkOf: id },
      ...(folderIds ? { folderIds } : {}),
      ...(isForeign(parent.definition, ownerId) ? { unconfirmed: true } : {}),
    };
    for (let there = await this.#add(definition); there; there = await this.#add(definition)) {
      if (!replace || there.id === id) throw conflict(there);
      await (there.life === 'present' ? deletions.delete(there.id) : deletions.erase(there));
    }
    try {
      // After the fork is written down: see Deletions.
      await definitions.get(id);
      const hosted = await open.enter(definition);
      await parent.branch(hosted, from);
      // Before anybody can find it: whoever confirms it moves this kernel out of the parent's sandbox.
      await hosted.session();
      const { documents } = hosted.storage;
      await hosted.redefine(() => definitions.update(hosted.id, (made) => ({ ...made, life: 'present' }), documents));
      await hosted.note('created', { subject: id, by: ownerId });
      await parent.note('forked', { subject: hosted.id, by: ownerId });
      return hosted;
    } catch (error) {
      await deletions.erase(definition);
      throw error;
    }
  }

  /** Gives the one that is there already. One of an owner after the other: two at once never take the same place. */
  async #add(definition: Definition): Promise<Definition | undefined> {
    const { definitions, admit } = this.#parts;
    const { ownerId, agentKey } = definition;
    const before = this.#adding.get(ownerId) ?? Promise.resolve();
    const adding = before.then(async () => {
      const there = await definitions.find(ownerId, agentKey);
      if (there) return there;
      await admit?.(ownerId, await definitions.count(ownerId));
      return await definitions.add(definition);
    });
    const over = adding.then(
      () => {},
      () => {}, // told to whoever asked
    );
    this.#adding.set(ownerId, over);
    void over.then(() => this.#adding.get(ownerId) === over && this.#adding.delete(ownerId));
    return await adding;
  }

  async #make<T>(work: () => Promise<T>): Promise<T> {
    if (this.#parts.stopping()) throw stopping();
    const making = work();
    this.#pending.add(making);
    try {
      return await making;
    } catch (error) {
      // It was closed under whoever made it.
      throw this.#parts.open.isShut && error instanceof CellaError && error.code === 'SESSION_CLOSED'
        ? stopping()
        : error;
    } finally {
      this.#pending.delete(making);
    }
  }
}

/** Whether code of somebody else runs in it: what was never confirmed is not by being forked again. */
function isForeign({ ownerId, unconfirmed }: Definition, maker: string): boolean {
  return ownerId !== maker || unconfirmed === true;
}

function conflict({ id, agentKey }: Definition): CellaError {
  const message = `There is a session for the key ${JSON.stringify(agentKey)} already.`;
  return new CellaError('SESSION_CONFLICT', message, { details: { session: id } });
}
