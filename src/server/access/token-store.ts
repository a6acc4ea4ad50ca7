/** API tokens: one document each, by id, with the SHA-256 of the secret. Deleting the document revokes the token. */

import { z } from 'zod';
import { KeyedSerialQueue } from '../../lib/queues.ts';
import { CreateToken, Scope, type TokenInfo, UserId } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { parseInput } from '../../protocol/parse.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import { type Principal, requireScope, scopesOf, withImpliedScopes } from './authorization.ts';
import {
  digestOf,
  isAlive,
  isOver,
  newId,
  newSecret,
  parseToken,
  sameDigest,
  type TokenParts,
  tokenText,
} from './secrets.ts';
import type { UserStore } from './user-store.ts';

const MOST_TOKENS = 200;
const TOUCH_MS = 60_000;
/** Compared with if there is no such token, so that the check takes as long. */
const DUMMY_DIGEST = digestOf('');

const StoredToken = z.object({
  name: z.string(),
  userId: UserId,
  scopes: z.array(Scope),
  secretSha256: z.string(),
  createdAt: z.number(),
  expiresAt: z.number().optional(),
  lastUsedAt: z.number().optional(),
});
type StoredToken = z.infer<typeof StoredToken>;

interface TokensOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly users: Pick<UserStore, 'get' | 'find'>;
}

interface CreatedToken {
  /** Shown only once. */
  readonly token: string;
  readonly info: TokenInfo;
}

export class TokenStore {
  readonly #tokens: Collection<StoredToken>;
  readonly #clock: Clock;
  readonly #users: TokensOptions['users'];
  readonly #touching = new Map<string, Promise<unknown>>();
  /** Per user, one at a time, so that two concurrent requests cannot both take the last place. */
  readonly #creations = new KeyedSerialQueue<string>();

  constructor({ documents, clock, users }: TokensOptions) {
    this.#tokens = new Collection(documents, 'tokens', StoredToken);
    this.#clock = clock;
    this.#users = users;
  }

  /** For `tokens`; for another user, `admin`. FORBIDDEN for browser logins, and for scopes that the creator lacks. */
  async create(by: Principal, input: CreateToken): Promise<CreatedToken> {
    requireScope(by, 'tokens');
    const { name, user = by.userName, scopes, expiresInMs } = parseInput(CreateToken, input, 'token');
    requireNoLogin(by, user);
    const { id: userId, role } = await this.#users.get(by, user);
    const allowed = scopesOf(role).filter((scope) => by.scopes.includes(scope));
    const wanted = scopes ? withImpliedScopes(scopes) : allowed;
    const refused = wanted.find((scope) => !allowed.includes(scope));
    if (refused) throw new CellaError('FORBIDDEN', `This token for ${user} cannot have the scope ${refused}.`);
    return await this.#creations.run(userId, async () => {
      await this.#checkCount(userId);
      const parts = { id: newId(16), secret: newSecret() };
      const createdAt = this.#clock();
      const expiresAt = expiresInMs === undefined ? undefined : createdAt + expiresInMs;
      const info = await this.issue(parts, { name, userId, scopes: wanted, createdAt, expiresAt });
      return { token: tokenText(parts), info };
    });
  }

  /** Tokens of oneself, or of the named user for `admin`, without secrets, oldest first. */
  async list(by: Principal, { user = by.userName }: { readonly user?: string } = {}): Promise<TokenInfo[]> {
    requireScope(by, 'tokens');
    const { id: userId } = await this.#users.get(by, user);
    const infos: TokenInfo[] = [];
    for await (const found of this.#of(userId)) infos.push(infoOf(found.id, found.value));
    return infos.toSorted((one, other) => one.createdAt - other.createdAt || (one.id < other.id ? -1 : 1));
  }

  /** From the next call on, neither the token nor a login made by it works. NOT_FOUND. */
  async revoke(by: Principal, tokenId: string): Promise<void> {
    const found = /^[a-z2-7]{16}$/.test(tokenId) ? await this.#tokens.get(tokenId) : undefined;
    const own = found?.value.userId === by.userId;
    if (!found || (!own && !by.scopes.includes('admin'))) throw unknown(tokenId);
    // A token may always revoke itself.
    if (by.authMethod.id !== tokenId) requireScope(by, 'tokens');
    if (!(await this.#tokens.delete(tokenId))) throw unknown(tokenId);
  }

  /** Undefined if the text is no valid token. Records the time of use. */
  async verify(text: string): Promise<Found<StoredToken> | undefined> {
    const parts = parseToken(text);
    const found = parts && (await this.#tokens.get(parts.id));
    const same = sameDigest(digestOf(parts?.secret ?? ''), found?.value.secretSha256 ?? DUMMY_DIGEST);
    if (!found || !same || !isAlive(found.value, this.#clock())) return undefined;
    this.#touch(found);
    return found;
  }

  async isAlive(tokenId: string, userId: string): Promise<boolean> {
    const found = await this.#tokens.get(tokenId);
    return found?.value.userId === userId && isAlive(found.value, this.#clock());
  }

  async issue({ id, secret }: TokenParts, token: Omit<StoredToken, 'secretSha256'>): Promise<TokenInfo> {
    const stored = { ...token, secretSha256: digestOf(secret) };
    const made = await this.#tokens.put(id, stored, { ifRevision: 0 });
    if (made === undefined) throw new CellaError('STORAGE_FAILED', `A token ${id} exists already. Try again.`);
    return infoOf(id, stored);
  }

  async forget(tokenId: string): Promise<void> {
    await this.#tokens.delete(tokenId);
  }

  async forgetUser(userId: string): Promise<void> {
    for await (const { id } of this.#of(userId)) await this.#tokens.delete(id);
  }

  /** Deletes tokens that have expired or whose user is gone. */
  async sweep(): Promise<void> {
    for await (const { id, value } of this.#tokens.all()) {
      if (isOver(value, this.#clock()) || (await this.#isOrphan(value))) await this.#tokens.delete(id);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#touching.values());
  }

  /** Runs in the background. `ifRevision` keeps it from bringing a revoked token back. */
  #touch({ id, revision, value }: Found<StoredToken>): void {
    const now = this.#clock();
    const recent = value.lastUsedAt !== undefined && Math.abs(now - value.lastUsedAt) < TOUCH_MS;
    if (recent || this.#touching.has(id)) return;
    const touching = this.#tokens
      .put(id, { ...value, lastUsedAt: now }, { ifRevision: revision })
      .catch(() => {}) // the time of the last use is worth no failed request
      .finally(() => this.#touching.delete(id));
    this.#touching.set(id, touching);
  }

  async #isOrphan({ userId }: StoredToken): Promise<boolean> {
    // A user with an unreadable document still exists.
    return this.#users.find(userId).then(
      (user) => user === undefined,
      () => false,
    );
  }

  async #checkCount(userId: string): Promise<void> {
    let count = 0;
    for await (const { id, value } of this.#of(userId)) {
      if (isOver(value, this.#clock())) await this.#tokens.delete(id);
      else count += 1;
    }
    if (count < MOST_TOKENS) return;
    throw new CellaError('QUOTA_EXCEEDED', `This user already has ${count} tokens. Revoke some first.`, {
      details: { quota: 'tokens', limit: MOST_TOKENS, used: count },
    });
  }

  #of(userId: string): AsyncGenerator<Found<StoredToken>> {
    return this.#tokens.where('userId', userId);
  }
}

function infoOf(
  id: string,
  { name, userId, scopes, createdAt, expiresAt, lastUsedAt }: Omit<StoredToken, 'secretSha256'>,
): TokenInfo {
  return { id, name, userId, userName: userId.split('~', 1)[0] ?? '', scopes, createdAt, expiresAt, lastUsedAt };
}

/** A token would outlive the login that made it. */
function requireNoLogin({ authMethod }: Principal, user: string): void {
  if (authMethod.kind !== 'login') return;
  const advice = `With a token: \`cella tokens create\`. Without one, ask an admin: \`cella tokens create --user ${user}\`.`;
  throw new CellaError('FORBIDDEN', 'A browser login cannot create a token.', { advice });
}

const unknown = (tokenId: string): CellaError =>
  new CellaError('NOT_FOUND', `There is no token ${JSON.stringify(tokenId.slice(0, 40))}.`);
