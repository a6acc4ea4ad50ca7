/**
 * The keys of model providers, each of one user: encrypted in storage, and decrypted only for a call that this user's prompt
 * has caused. No two users share a key, and no key replaces another.
 */

import { z } from 'zod';
import { SerialQueue } from '../../lib/queues.ts';
import {
  type CredentialInfo,
  CredentialValue,
  ProviderName,
  type Rotation,
  UserId,
} from '../../protocol/access-models.ts';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { parseInput } from '../../protocol/parse.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import { type Principal, requireScope } from '../access/authorization.ts';
import type { UserStore } from '../access/user-store.ts';
import { type EnvironmentKeys, Keyring, keyFilePath, Sealed, seal, unseal } from './master-key.ts';

const Stored = z.object({
  userId: UserId,
  provider: ProviderName,
  sealed: Sealed,
  createdAt: z.number(),
  updatedAt: z.number(),
});
type Stored = z.infer<typeof Stored>;

export interface CredentialOptions {
  readonly documents: DocumentStore;
  readonly users: Pick<UserStore, 'get'>;
  /** The folder of `master-key`, unless a key is given. */
  readonly dataDir: string;
  readonly masterKey?: EnvironmentKeys | undefined;
  readonly clock?: Clock;
}

export class CredentialStore {
  readonly #stored: Collection<Stored>;
  readonly #users: CredentialOptions['users'];
  readonly #keys: Keyring;
  readonly #clock: Clock;
  /** Serialises changes, so that nothing is encrypted with a key that a rotation is about to delete. */
  readonly #queue = new SerialQueue();

  constructor({ documents, users, dataDir, masterKey, clock = Date.now }: CredentialOptions) {
    this.#stored = new Collection(documents, 'credentials', Stored);
    this.#users = users;
    this.#keys = new Keyring(keyFilePath(dataDir), masterKey);
    this.#clock = clock;
  }

  /** Sets the principal's own key, or for `admin` that of the named user. Replaces the previous one. */
  async set(by: Principal, provider: Provider, value: string, user = by.userName): Promise<CredentialInfo> {
    const { id: userId } = await this.#of(by, user);
    const text = parseInput(CredentialValue, value, 'credential');
    return await this.#queue.run(() => this.#set(userId, provider, text));
  }

  async list(by: Principal, user = by.userName): Promise<CredentialInfo[]> {
    const { id: userId } = await this.#of(by, user);
    const { items } = await this.#stored.page({ prefix: idOf(userId, '') });
    return items.map(({ value }) => infoOf(value));
  }

  async delete(by: Principal, provider: Provider, user = by.userName): Promise<void> {
    const { id: userId } = await this.#of(by, user);
    if (await this.#stored.delete(idOf(userId, provider))) return;
    throw new CellaError('NOT_FOUND', `${user} has no credential for ${provider}.`, {
      advice: 'List them with `cella credentials list`, or GET /v1/credentials.',
    });
  }

  /** For the server's own use: this user's key. Throws CREDENTIAL_MISSING or CREDENTIAL_UNREADABLE. */
  async reveal(userId: string, provider: Provider): Promise<string> {
    const found = await this.#stored.get(idOf(userId, provider));
    if (!found) throw missing(userId, provider);
    return await this.#open(found.value);
  }

  /**
   * Requires `admin`. Encrypts all credentials again. A key in a file is replaced by a new one. A given key is the new one,
   * with the previous key in CELLA_OLD_MASTER_KEY. Can be repeated after an interruption.
   */
  async rotate(by: Principal): Promise<Rotation> {
    requireScope(by, 'admin');
    return await this.#queue.run(() => this.#rotate());
  }

  async forgetUser(userId: string): Promise<void> {
    await this.#stored.deleteAll(idOf(userId, ''));
  }

  async #set(userId: string, provider: Provider, text: string): Promise<CredentialInfo> {
    const sealed = seal(text, await this.#keys.current(), { userId, name: provider });
    for (;;) {
      const id = idOf(userId, provider);
      // A damaged one can be set again.
      const before = await this.#stored.tryGet(id);
      const updatedAt = this.#clock();
      const stored: Stored = { userId, provider, sealed, createdAt: before?.value.createdAt ?? updatedAt, updatedAt };
      const made = await this.#stored.put(id, stored, before ? { ifRevision: before.revision } : {});
      if (made !== undefined) return infoOf(stored);
    }
  }

  async #rotate(): Promise<Rotation> {
    await this.#keys.rotate();
    const left: Rotation['left'] = [];
    let rotated = 0;
    for await (const found of this.#stored.all()) {
      const { userId, provider } = found.value;
      if (await this.#reseal(found)) rotated += 1;
      else left.push({ userId, provider });
    }
    // The remaining credentials may still need an older key.
    if (left.length === 0) await this.#keys.prune();
    return { rotated, left };
  }

  async #of(by: Principal, user: string): Promise<{ readonly id: string }> {
    requireScope(by, 'tokens');
    return await this.#users.get(by, user);
  }

  async #open({ userId, provider, sealed }: Stored): Promise<string> {
    const key = await this.#keys.find(sealed.keyId);
    if (!key) throw unreadable(userId, provider, `it was encrypted with another master key (${sealed.keyId})`);
    try {
      return unseal(sealed, key, { userId, name: provider });
    } catch {
      // The cipher's own message adds nothing.
      throw unreadable(userId, provider, 'the stored data was changed, or belongs to another user or provider');
    }
  }

  /** False if no key decrypts it. Leaves a credential alone that another request sets or deletes. */
  async #reseal({ id, revision, value }: Found<Stored>): Promise<boolean> {
    const { userId, provider } = value;
    const text = await this.#open(value).catch((error: unknown) => {
      if (error instanceof CellaError && error.code === 'CREDENTIAL_UNREADABLE') return undefined;
      throw error;
    });
    if (text === undefined) return false;
    const sealed = seal(text, await this.#keys.current(), { userId, name: provider });
    await this.#stored.put(id, { ...value, sealed }, { ifRevision: revision });
    return true;
  }
}

const idOf = (userId: string, provider: string): string => `${userId}/${provider}`;

function infoOf({ userId, provider, createdAt, updatedAt }: Stored): CredentialInfo {
  return { provider, userId, userName: userId.split('~', 1)[0] ?? '', createdAt, updatedAt };
}

function missing(userId: string, provider: Provider): CellaError {
  const who = userId.split('~', 1)[0];
  return new CellaError('CREDENTIAL_MISSING', `${who} has no key for ${provider} at this server.`, {
    details: { userId, provider },
    advice: `Set it with \`cella credentials set ${provider}\`. Every user needs their own key.`,
  });
}

function unreadable(userId: string, provider: Provider, why: string): CellaError {
  const who = userId.split('~', 1)[0];
  return new CellaError('CREDENTIAL_UNREADABLE', `The key of ${who} for ${provider} cannot be read: ${why}.`, {
    details: { userId, provider },
  });
}
