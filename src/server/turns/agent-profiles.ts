/** Each user's named agent profiles in storage. */

import { KeyedSerialQueue } from '../../lib/queues.ts';
import { type AgentProfile, NamedProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import { Collection } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';

const COLLECTION = 'agent-profiles';
const MOST_PROFILES = 100;
/** The limit of one document in storage. */
const MOST_BYTES = 900_000;

export class AgentProfiles {
  readonly #profiles: Collection<NamedProfile>;
  /** By user: one after the other, so that two at once cannot both take the last place. */
  readonly #writes = new KeyedSerialQueue<string>();

  constructor(documents: DocumentStore) {
    this.#profiles = new Collection(documents, COLLECTION, NamedProfile);
  }

  list(userId: string): Promise<NamedProfile[]> {
    return this.#profiles.list(idOf(userId, ''));
  }

  async get(userId: string, name: string): Promise<NamedProfile> {
    const stored = await this.#profiles.tryGet(idOf(userId, name));
    if (stored) return stored.value;
    throw missing(name);
  }

  async put(userId: string, name: string, profile: AgentProfile): Promise<NamedProfile> {
    const stored: NamedProfile = { name, updatedAt: Date.now(), profile };
    const size = Buffer.byteLength(JSON.stringify(stored));
    if (size > MOST_BYTES) {
      throw new CellaError('TOO_LARGE', `A profile can have at most ${MOST_BYTES} bytes; this one has ${size}.`);
    }
    return await this.#writes.run(userId, async () => {
      const others = (await this.list(userId)).filter((one) => one.name !== name);
      if (others.length >= MOST_PROFILES) {
        throw new CellaError('QUOTA_EXCEEDED', `You already have ${MOST_PROFILES} profiles.`, {
          advice: 'Delete one that is no longer needed.',
        });
      }
      await this.#profiles.put(idOf(userId, name), stored);
      return stored;
    });
  }

  async delete(userId: string, name: string): Promise<void> {
    if (await this.#profiles.delete(idOf(userId, name))) return;
    throw missing(name);
  }

  /** Deletes all profiles of a user. */
  async deleteAll(userId: string): Promise<void> {
    await this.#profiles.deleteAll(idOf(userId, ''));
  }
}

function missing(name: string): CellaError {
  const advice = 'List yours with `cella profiles list`, or GET /v1/profiles.';
  return new CellaError('NOT_FOUND', `You have no profile ${name}.`, { advice });
}

function idOf(userId: string, name: string): string {
  return `${userId}/${name}`;
}
