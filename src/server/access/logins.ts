/** Logins of browsers: by a one-time code from a link, or by a token, in exchange for a cookie with an end. */

import { z } from 'zod';
import { Scope, TokenId, UserId } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import { Collection, type Found } from '../../storage/collection.ts';
import type { Clock, DocumentStore } from '../../storage/contract.ts';
import type { BrowserLogin, Logins, Principal, Users } from './access-control.ts';
import { principalOf, scopesOf, unauthenticated } from './authorization.ts';
import { derived, digestOf, isAlive, isOver, newSecret, SECRET_SHAPE, sameDigest } from './secrets.ts';
import type { StoredTokens } from './tokens.ts';

const CODE_MS = 15 * 60_000;
const LOGIN_MS = 7 * 24 * 3600 * 1000;
const MOST_CODES = 20;
const MOST_LOGINS = 50;

interface LoginsOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly users: Pick<Users, 'find' | 'get'>;
  readonly tokens: Pick<StoredTokens, 'isAlive'>;
}

export class StoredLogins implements Logins {
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

  async createCode(by: Principal, user?: string): Promise<{ readonly code: string; readonly expiresAt: number }> {
    const own = bearerOf(by);
    const { secret, expiresAt } = await this.#codes.make(user === undefined ? own : await this.#bearerFor(by, user));
    return { code: secret, expiresAt };
  }

  /** Never with more than both of them may. */
  async #bearerFor(by: Principal, user: string): Promise<Grant> {
    const { id, role, disabled, name } = await this.#users.get(by, user);
    if (id === by.userId) return bearerOf(by);
    if (disabled) throw new CellaError('FORBIDDEN', `The user ${name} is disabled.`);
    return { userId: id, scopes: scopesOf(role).filter((scope) => by.scopes.includes(scope)) };
  }

  async redeem(code: string): Promise<BrowserLogin> {
    const found = await this.#codes.take(code);
    if (!found) {
      const advice = '`cella users login` makes another; an admin makes one for you with `cella users login NAME`.';
      throw unauthenticated('This login link is not valid: it was used before, or has expired.', advice);
    }
    return this.#open(found.value);
  }

  async open(by: Principal): Promise<BrowserLogin> {
    return this.#open(bearerOf(by));
  }

  async authenticate(cookie: string): Promise<Principal> {
    const found = await this.#logins.find(cookie);
    if (!found) throw unauthenticated();
    return this.#principal(found.value, found.id);
  }

  csrfOf(cookie: string): string {
    return derived(cookie, 'csrf');
  }

  checkCsrf(cookie: string, given: string | undefined): void {
    if (given !== undefined && sameDigest(digestOf(given), digestOf(this.csrfOf(cookie)))) return;
    throw new CellaError('FORBIDDEN', 'The CSRF token of this request is missing or is not that of the login.');
  }

  logout(cookie: string): Promise<boolean> {
    return this.#logins.remove(cookie);
  }

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

  /** Nothing is made for a user who is gone or disabled, or by a token that is. */
  async #open(bearer: Grant): Promise<BrowserLogin> {
    await this.#principal(bearer, '');
    const { secret: cookie, id, expiresAt } = await this.#logins.make(bearer);
    const principal = await this.#principal(bearer, id);
    return { cookie, csrf: this.csrfOf(cookie), expiresAt, principal };
  }

  async #principal(bearer: Grant, loginId: string): Promise<Principal> {
    const { tokenId, userId } = bearer;
    if (tokenId !== undefined && !(await this.#tokens.isAlive(tokenId, userId))) throw unauthenticated();
    const id = loginId.slice(0, 16);
    return principalOf(this.#users, bearer, { kind: 'login', id, ...(tokenId === undefined ? {} : { tokenId }) });
  }
}

/** A login makes no other, and no token: its end would be no end. */
function bearerOf({ userId, scopes, authMethod: credential }: Principal): Grant {
  if (credential.kind === 'login') {
    throw new CellaError('FORBIDDEN', 'A login of a browser cannot make another one. Use a token.');
  }
  return { userId, scopes: [...scopes], ...(credential.kind === 'token' ? { tokenId: credential.id } : {}) };
}

const Pass = z.object({
  userId: UserId,
  scopes: z.array(Scope),
  /** The token by which it was made, and with which it ends. */
  tokenId: TokenId.optional(),
  createdAt: z.number(),
  expiresAt: z.number(),
});
type Pass = z.infer<typeof Pass>;

type Grant = Pick<Pass, 'userId' | 'scopes' | 'tokenId'>;

interface ExpiringSecretsOptions {
  readonly documents: DocumentStore;
  readonly clock: Clock;
  readonly collection: string;
  readonly ttlMs: number;
  /** Of one user. The oldest make room. */
  readonly most: number;
}

class ExpiringSecrets {
  readonly #passes: Collection<Pass>;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #most: number;

  constructor({ documents, clock, collection, ttlMs, most }: ExpiringSecretsOptions) {
    this.#passes = new Collection(documents, collection, Pass);
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.#most = most;
  }

  async make({ userId, scopes, tokenId }: Grant): Promise<{ secret: string; id: string; expiresAt: number }> {
    await this.#makeRoom(userId);
    const secret = newSecret();
    const id = digestOf(secret);
    const createdAt = this.#clock();
    const expiresAt = createdAt + this.#ttlMs;
    await this.#passes.put(id, { userId, scopes, createdAt, expiresAt, ...(tokenId ? { tokenId } : {}) });
    return { secret, id, expiresAt };
  }

  async find(secret: string): Promise<Found<Pass> | undefined> {
    const found = SECRET_SHAPE.test(secret) ? await this.#passes.get(digestOf(secret)) : undefined;
    return found && isAlive(found.value, this.#clock()) ? found : undefined;
  }

  /** As `find`, and it is gone. Of several at once, one gets it. */
  async take(secret: string): Promise<Found<Pass> | undefined> {
    const found = await this.find(secret);
    return found && (await this.#passes.delete(found.id)) ? found : undefined;
  }

  async remove(secret: string): Promise<boolean> {
    return SECRET_SHAPE.test(secret) && (await this.#passes.delete(digestOf(secret)));
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
