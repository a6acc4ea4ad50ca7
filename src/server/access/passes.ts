/** Login codes and browser logins as they are stored: by the SHA-256 of a secret, as whom, and until when. */

import { z } from 'zod';
import { Scope, TokenId, UserId } from '../../protocol/access-models.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import { Collection, type Found } from './collection.ts';
import { isAlive, isOver } from './expiry.ts';
import { digestOf, newSecret, SECRET } from './secret.ts';

const Pass = z.object({
  userId: UserId,
  scopes: z.array(Scope),
  /** The token by which it was made, and with which it ends. */
  tokenId: TokenId.optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
});
export type Pass = z.infer<typeof Pass>;

export type Bearer = Pick<Pass, 'userId' | 'scopes' | 'tokenId'>;

interface Parts {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly collection: string;
  readonly ttlMs: number;
  /** Of one user. The oldest make room. */
  readonly most: number;
}

export class Passes {
  readonly #passes: Collection<Pass>;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #most: number;

  constructor({ documents, clock, collection, ttlMs, most }: Parts) {
    this.#passes = new Collection(documents, collection, Pass);
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.#most = most;
  }

  async make({ userId, scopes, tokenId }: Bearer): Promise<{ secret: string; id: string; expiresAt: number }> {
    await this.#makeRoom(userId);
    const secret = newSecret();
    const id = digestOf(secret);
    const createdAt = this.#clock();
    const expiresAt = createdAt + this.#ttlMs;
    await this.#passes.put(id, { userId, scopes, createdAt, expiresAt, ...(tokenId ? { tokenId } : {}) });
    return { secret, id, expiresAt };
  }

  async find(secret: string): Promise<Found<Pass> | undefined> {
    const found = SECRET.test(secret) ? await this.#passes.get(digestOf(secret)) : undefined;
    return found && isAlive(found.value, this.#clock()) ? found : undefined;
  }

  /** As `find`, and it is gone. Of several at once, one gets it. */
  async take(secret: string): Promise<Found<Pass> | undefined> {
    const found = await this.find(secret);
    return found && (await this.#passes.delete(found.id)) ? found : undefined;
  }

  async remove(secret: string): Promise<boolean> {
    return SECRET.test(secret) && (await this.#passes.delete(digestOf(secret)));
  }

  async forgetUser(userId: string): Promise<void> {
    for await (const { id } of this.#passes.where('userId', userId)) await this.#passes.delete(id);
  }

  async sweep(): Promise<void> {
    for await (const { id, value } of this.#passes.all()) {
      if (isOver(value, this.#clock())) await this.#passes.delete(id);
    }
  }

  async #makeRoom(userId: string): Promise<void> {
    const own: Found<Pass>[] = [];
    for await (const found of this.#passes.where('userId', userId)) own.push(found);
    const oldestFirst = own.toSorted((one, other) => one.revision - other.revision);
    const tooMany = oldestFirst.slice(0, Math.max(0, own.length - this.#most + 1));
    for (const { id } of tooMany) await this.#passes.delete(id);
  }
}
