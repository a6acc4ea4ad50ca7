/** Browser logins: a one-time code from a link, or a token, in exchange for a cookie that expires. */

import { z } from 'zod';
import { Scope, TokenId, UserId } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import { type Principal, principalOf, scopesOf, unauthenticated } from './authorization.ts';
import { derived, digestOf, isAlive, isOver, newSecret, SECRET_SHAPE, sameDigest } from './secrets.ts';
import type { TokenStore } from './token-store.ts';
import type { UserStore } from './user-store.ts';

const CODE_MS = 15 * 60_000;
const LOGIN_MS = 7 * 24 * 3600 * 1000;
const MOST_CODES = 20;
const MOST_LOGINS = 50;

interface LoginsOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly users: Pick<UserStore, 'find' | 'get'>;
  readonly tokens: Pick<TokenStore, 'isAlive'>;
}

export interface BrowserLogin {
  /** The value of the cookie: http-only, same-site. */
  readonly cookie: string;
  readonly csrf: string;
  readonly expiresAt: number;
  readonly principal: Principal;
}

export class Logins {
  readonly #codes: ExpiringSecrets;
  readonly #logins: ExpiringSecrets;
  readonly #users: LoginsOptions['users'];
  readonly #tokens: LoginsOptions['tokens'];

  constructor({ documents, clock, users, tokens }: LoginsOptions) {
    this.#codes = new ExpiringSecrets({
      documents,
      clock,
      collection: 'login-codes',
      ttlMs: CODE_MS,
      most: MOST_CODES,
    });
    this.#logins = new ExpiringSecrets({ documents, clock, collection: 'logins', ttlMs: LOGIN_MS, most: MOST_LOGINS });
    this.#users = users;
    this.#tokens = tokens;
  }

  /** A code for a login link: as this principal, or as another user for `admin`. It works once, for 15 minutes. */
  async createCode(by: Principal, user?: string): Promise<{ readonly code: string; readonly expiresAt: number }> {
    const own = grantOf(by);
    const { secret, expiresAt } = await this.#codes.make(user === undefined ? own : await this.#grantFor(by, user));
    return { code: secret, expiresAt };
  }

  /** Only with the scopes that both have. */
  async #grantFor(by: Principal, user: string): Promise<Grant> {
    const { id, role, disabled, name } = await this.#users.get(by, user);
    if (id === by.userId) return grantOf(by);
    if (disabled) throw new CellaError('FORBIDDEN', `The user ${name} is disabled.`);
    return { userId: id, scopes: scopesOf(role).filter((scope) => by.scopes.includes(scope)) };
  }

  /** A login in exchange for a code, or UNAUTHENTICATED. If two use a code at once, one gets the login. */
  async redeem(code: string): Promise<BrowserLogin> {
    const found = await this.#codes.take(code);
    if (!found) {
      const advice =
        '`cella users login` creates another; an admin can create one for you with `cella users login NAME`.';
      throw unauthenticated('This login link was already used or has expired.', advice);
    }
    return this.#open(found.value);
  }

  /** A login for a principal that has shown a token. It ends when the token does. */
  async open(by: Principal): Promise<BrowserLogin> {
    return this.#open(grantOf(by));
  }

  /** Whose cookie it is, or UNAUTHENTICATED. */
  async authenticate(cookie: string): Promise<Principal> {
    const found = await this.#logins.find(cookie);
    if (!found) throw unauthenticated();
    return this.#principal(found.value, found.id);
  }

  /** The token that a page must send with each request that changes something. */
  csrfOf(cookie: string): string {
    return derived(cookie, 'csrf');
  }

  /** FORBIDDEN unless it is what `csrfOf` returns. */
  checkCsrf(cookie: string, given: string | undefined): void {
    if (given !== undefined && sameDigest(digestOf(given), digestOf(this.csrfOf(cookie)))) return;
    throw new CellaError('FORBIDDEN', 'The CSRF token of this request is missing or does not belong to the login.');
  }

  /** False if the login had ended before. */
  logout(cookie: string): Promise<boolean> {
    return this.#logins.remove(cookie);
  }

  /** Ends all logins and login links of oneself, or of another user for `admin`. */
  async logoutUser(by: Principal, user: string): Promise<void> {
    await this.forgetUser((await this.#users.get(by, user)).id);
  }

  async forgetUser(userId: string): Promise<void> {
    await this.#codes.forgetUser(userId);
    await this.#logins.forgetUser(userId);
  }

  async sweep(): Promise<void> {
    await this.#codes.sweep();
    await this.#logins.sweep();
  }

  /** Fails if the user is gone or disabled, or the token is. */
  async #open(grant: Grant): Promise<BrowserLogin> {
    await this.#principal(grant, '');
    const { secret: cookie, id, expiresAt } = await this.#logins.make(grant);
    const principal = await this.#principal(grant, id);
    return { cookie, csrf: this.csrfOf(cookie), expiresAt, principal };
  }

  async #principal(grant: Grant, loginId: string): Promise<Principal> {
    const { tokenId, userId } = grant;
    if (tokenId !== undefined && !(await this.#tokens.isAlive(tokenId, userId))) throw unauthenticated();
    const id = loginId.slice(0, 16);
    return principalOf(this.#users, grant, { kind: 'login', id, tokenId });
  }
}

/** A login cannot make another login: it could be prolonged without end. */
function grantOf({ userId, scopes, authMethod }: Principal): Grant {
  if (authMethod.kind === 'login') {
    throw new CellaError('FORBIDDEN', 'A browser login cannot create another login. Use a token.');
  }
  return { userId, scopes: [...scopes], ...(authMethod.kind === 'token' ? { tokenId: authMethod.id } : {}) };
}

const StoredGrant = z.object({
  userId: UserId,
  scopes: z.array(Scope),
  /** The token by which it was made, and with which it ends. */
  tokenId: TokenId.optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
});
type StoredGrant = z.infer<typeof StoredGrant>;

type Grant = Pick<StoredGrant, 'userId' | 'scopes' | 'tokenId'>;

interface ExpiringSecretsOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly collection: string;
  readonly ttlMs: number;
  /** Per user. The oldest are evicted. */
  readonly most: number;
}

/** Login codes or logins: stored by the SHA-256 of their secret, with whom they stand for and until when. */
class ExpiringSecrets {
  readonly #grants: Collection<StoredGrant>;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #most: number;

  constructor({ documents, clock, collection, ttlMs, most }: ExpiringSecretsOptions) {
    this.#grants = new Collection(documents, collection, StoredGrant);
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.#most = most;
  }

  async make({ userId, scopes, tokenId }: Grant): Promise<{ secret: string; id: string; expiresAt: number }> {
    await this.#evictOldest(userId);
    const secret = newSecret();
    const id = digestOf(secret);
    const createdAt = this.#clock();
    const expiresAt = createdAt + this.#ttlMs;
    await this.#grants.put(id, { userId, scopes, createdAt, expiresAt, ...(tokenId ? { tokenId } : {}) });
    return { secret, id, expiresAt };
  }

  async find(secret: string): Promise<Found<StoredGrant> | undefined> {
    const found = SECRET_SHAPE.test(secret) ? await this.#grants.get(digestOf(secret)) : undefined;
    return found && isAlive(found.value, this.#clock()) ? found : undefined;
  }

  /** Like `find`, and deletes the login. If several requests try at once, one gets it. */
  async take(secret: string): Promise<Found<StoredGrant> | undefined> {
    const found = await this.find(secret);
    return found && (await this.#grants.delete(found.id)) ? found : undefined;
  }

  async remove(secret: string): Promise<boolean> {
    return SECRET_SHAPE.test(secret) && (await this.#grants.delete(digestOf(secret)));
  }

  async forgetUser(userId: string): Promise<void> {
    for await (const { id } of this.#grants.where('userId', userId)) await this.#grants.delete(id);
  }

  async sweep(): Promise<void> {
    for await (const { id, value } of this.#grants.all()) {
      if (isOver(value, this.#clock())) await this.#grants.delete(id);
    }
  }

  async #evictOldest(userId: string): Promise<void> {
    const own: Found<StoredGrant>[] = [];
    for await (const found of this.#grants.where('userId', userId)) own.push(found);
    const oldestFirst = own.toSorted((one, other) => one.revision - other.revision);
    const tooMany = oldestFirst.slice(0, Math.max(0, own.length - this.#most + 1));
    for (const { id } of tooMany) await this.#grants.delete(id);
  }
}
