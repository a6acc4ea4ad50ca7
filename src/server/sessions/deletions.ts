/** Sessions on their way out: one that has begun to go is gone in the end, also where the server ends meanwhile. */

import { CellaError } from '../../protocol/errors.ts';
import type { Definition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import { eraseSession } from './erase.ts';
import type { OpenSessions } from './open-sessions.ts';
import { isTaken } from './ownership.ts';
import type { HostShare } from './share.ts';

export class Deletions {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open: OpenSessions;
  readonly #begunAt = Date.now();
  /** Whoever deletes one again waits for the same. */
  readonly #pending = new Map<string, Promise<void>>();

  constructor(share: HostShare, definitions: Definitions, open: OpenSessions) {
    this.#share = share;
    this.#definitions = definitions;
    this.#open = open;
  }

  get pending(): Iterable<Promise<void>> {
    return this.#pending.values();
  }

  async delete(id: string): Promise<void> {
    const { definition, storage } = await this.#open.get(id);
    await this.#checkUnshared(definition);
    await this.#definitions.update(id, (there) => ({ ...there, life: 'deleting' }), storage.documents);
    await this.erase(definition);
  }

  /** One that is on its way out, or was never finished. */
  erase(definition: Definition): Promise<void> {
    const { id } = definition;
    const known = this.#pending.get(id);
    if (known) return known;
    const erasing = this.#erase(definition).finally(() => this.#pending.delete(id));
    this.#pending.set(id, erasing);
    return erasing;
  }

  /** Those that the server before this one has left half done. False where some could not be erased. */
  async eraseLeft(onFailure: (id: string, error: unknown) => void): Promise<boolean> {
    let all = true;
    const half = ['making', 'deleting'].map((value) => ({ field: 'life', value }));
    for await (const definition of this.#definitions.where(half)) {
      const { life, createdAt } = definition;
      // A fork that is being made now is in other hands.
      if (life === 'making' && createdAt >= this.#begunAt) continue;
      await this.erase(definition).catch((error) => {
        // Another one is at it.
        if (isTaken(error)) return;
        all = false;
        onFailure(definition.id, error);
      });
    }
    return all;
  }

  async #erase(definition: Definition): Promise<void> {
    await this.#checkStillUnshared(definition);
    const hosted = await this.#open.find(definition.id);
    await hosted?.destroy();
    this.#open.forget(definition.id);
    await eraseSession(this.#share, definition);
    await this.#share.agents?.forget(definition.id);
    await this.#definitions.remove(definition);
  }

  /**
   * Somebody may have begun a fork after the first look. A fork is written down before it looks at its parent, and a
   * deletion before it looks for forks again: one of the two always sees the other.
   */
  async #checkStillUnshared(definition: Definition): Promise<void> {
    try {
      await this.#checkUnshared(definition);
    } catch (error) {
      const stay = (there: Definition): Definition =>
        there.life === 'deleting' ? { ...there, life: 'present' } : there;
      if (error instanceof CellaError && error.code === 'SESSION_CONFLICT')
        await this.#definitions.update(definition.id, stay);
      throw error;
    }
  }

  /** Forks share the workspace: it goes with the last of them. */
  async #checkUnshared({ id }: Definition): Promise<void> {
    const forks: string[] = [];
    for await (const { life, id: fork } of this.#definitions.where([{ field: 'forkOf', value: id }])) {
      if (life !== 'deleting') forks.push(fork);
    }
    if (forks.length === 0) return;
    const message = `Forks work in the workspace of session ${id}: ${forks.join(', ')}.`;
    const advice = 'Delete the forks first.';
    throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, forks }, advice });
  }
}
