/** Who may use the server: opens users, tokens, logins and the audit log, and makes the first user and its admin token. */

import { dirname, join } from 'node:path';
import { makePrivateFolder, type OwnFile, readOwnFile, replacePrivateFile } from '../../lib/private-file.ts';
import { systemCode } from '../../lib/values.ts';
import type { Quotas } from '../../protocol/access-models.ts';
import type { Clock, Storage, TrimLimits } from '../../storage/contract.ts';
import { guarded, storageFailed } from '../../storage/file/file-errors.ts';
import { UserQuotas } from '../quotas/user-quotas.ts';
import { RateLimiter, type RateOptions } from '../request-limits.ts';
import { AuditLog } from './audit-log.ts';
import { LOCAL, localAdmin, type Principal, principalOf, scopesOf, unauthenticated } from './authorization.ts';
import { Logins } from './logins.ts';
import { newId, newSecret, tokenText } from './secrets.ts';
import { SessionTokens } from './session-tokens.ts';
import { TokenStore } from './token-store.ts';
import { UserStore } from './user-store.ts';

export interface AccessOptions {
  readonly storage: Pick<Storage, 'documents' | 'events'>;
  /** The folder of `admin-token`. */
  readonly dataDir: string;
  readonly rates?: RateOptions | undefined;
  /** For wrong tokens, codes and logins, and for new ones. */
  readonly credentialRates?: RateOptions | undefined;
  /** For users that have no limit of their own. */
  readonly quotas?: Quotas | undefined;
  /** How much of the audit log `sweep` keeps. Default: 1 GB and a million entries. */
  readonly auditLimits?: TrimLimits | undefined;
  readonly clock?: Clock;
  /** Milliseconds that never go back, for quotas. */
  readonly elapsed?: () => number;
}

const AUDIT_LIMITS: TrimLimits = { maxBytes: 1024 ** 3, maxEvents: 1_000_000 };

/** Once this is used up, one each two seconds. */
const CREDENTIAL_RATES = { burst: 30, perSecond: 0.5, what: 'Too many tokens, codes or logins' };

export async function openAccess(options: AccessOptions): Promise<AccessControl> {
  const access = new AccessControl(options);
  await access.prepare(options.dataDir);
  return access;
}

/**
 * Methods of its parts that take `by` check that this principal may do it. They fail with FORBIDDEN, or with NOT_FOUND if
 * the principal must not know of it. Nothing is cached: what is revoked, disabled or deleted ends with the next call.
 */
export class AccessControl implements AsyncDisposable {
  readonly users: UserStore;
  readonly tokens: TokenStore;
  /** Tokens of agent runners. */
  readonly sessionTokens: SessionTokens;
  readonly logins: Logins;
  readonly audit: AuditLog;
  readonly rates: RateLimiter;
  /** Counts wrong tokens, codes and logins, and new ones: no honest client sends or creates many. */
  readonly credentialRates: RateLimiter;
  readonly quotas: UserQuotas;
  /** The file with the token of the admin `local`. */
  readonly adminTokenPath: string;
  readonly #clock: Clock;
  readonly #auditLimits: TrimLimits;

  constructor(options: AccessOptions) {
    const { storage, dataDir, rates, credentialRates, quotas, auditLimits, clock = Date.now, elapsed } = options;
    const { documents, events } = storage;
    this.#clock = clock;
    this.#auditLimits = auditLimits ?? AUDIT_LIMITS;
    this.users = new UserStore({ documents, clock, forget: (userId) => this.#forget(userId) });
    this.tokens = new TokenStore({ documents, clock, users: this.users });
    this.credentialRates = new RateLimiter({
      ...CREDENTIAL_RATES,
      ...(elapsed ? { elapsed } : {}),
      ...credentialRates,
    });
    const failures = this.credentialRates;
    this.sessionTokens = new SessionTokens({ documents, clock, users: this.users, failures });
    this.logins = new Logins({ documents, clock, users: this.users, tokens: this.tokens });
    this.audit = new AuditLog(events);
    this.rates = new RateLimiter(rates);
    this.quotas = new UserQuotas({ users: this.users, defaults: quotas, elapsed });
    this.adminTokenPath = adminTokenPath(dataDir);
  }

  /** Whose token it is, or UNAUTHENTICATED. Takes the token itself, without `Bearer`. */
  async authenticate(token: string): Promise<Principal> {
    const found = await this.tokens.verify(token);
    if (!found) throw unauthenticated();
    return principalOf(this.users, found.value, { kind: 'token', id: found.id, name: found.value.name });
  }

  /** The admin `local`, for actions of the server itself, such as creating the first login link. */
  localAdmin(): Principal {
    return localAdmin;
  }

  /** Removes expired tokens, codes and logins, and the oldest entries of an audit log that is too long. */
  async sweep(): Promise<void> {
    await this.tokens.sweep();
    await this.sessionTokens.sweep();
    await this.logins.sweep();
    await this.audit.trim(this.#auditLimits);
  }

  async close(): Promise<void> {
    await this.audit.close();
    await this.tokens.close();
    await this.sessionTokens.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async prepare(dataDir: string): Promise<void> {
    await guarded('use', dataDir, () => makePrivateFolder(dataDir));
    await this.users.prepare();
    const file = await readAdminToken(this.adminTokenPath);
    if (file.kind === 'private' && (await this.#isAdmin(file.token))) return;
    await this.#makeAdminToken();
    const exposed = file.kind === 'exposed' ? await this.tokens.verify(file.token) : undefined;
    if (exposed) await this.tokens.forget(exposed.id);
  }

  async #isAdmin(token: string): Promise<boolean> {
    const found = await this.tokens.verify(token);
    return found?.value.userId === LOCAL && found.value.scopes.includes('admin');
  }

  /** The file comes first: should the process end in between, it holds a token that opens nothing. */
  async #makeAdminToken(): Promise<void> {
    const parts = { id: newId(16), secret: newSecret() };
    await writeAdminToken(this.adminTokenPath, tokenText(parts));
    const token = { name: 'admin-token', userId: LOCAL, scopes: [...scopesOf('admin')], createdAt: this.#clock() };
    await this.tokens.issue(parts, token);
  }

  async #forget(userId: string): Promise<void> {
    await this.tokens.forgetUser(userId);
    await this.sessionTokens.forgetUser(userId);
    await this.logins.forgetUser(userId);
  }
}

const MAX_TOKEN_BYTES = 200;

/** `exposed`: others could have read it, so its token must not be used any more. */
type AdminTokenFile =
  | { readonly kind: 'missing' }
  | { readonly kind: 'private'; readonly token: string }
  | { readonly kind: 'exposed'; readonly token: string };

const adminTokenPath = (dataDir: string): string => join(dataDir, 'admin-token');

export async function readAdminToken(path: string): Promise<AdminTokenFile> {
  const file = await readOwnFile(path, { maxBytes: MAX_TOKEN_BYTES }).catch((error): OwnFile => {
    if (systemCode(error) === 'EACCES') return { kind: 'missing' };
    throw storageFailed('read', path, error);
  });
  // Another user's file, a folder or a pipe counts as missing; what is written takes its place, or says why it cannot.
  if (file.kind !== 'read') return { kind: 'missing' };
  return { kind: (file.mode & 0o077) === 0 ? 'private' : 'exposed', token: file.text.trim() };
}

async function writeAdminToken(path: string, token: string): Promise<void> {
  const temporary = join(dirname(path), '.admin-token.new');
  await guarded('write', path, () => replacePrivateFile(path, `${token}\n`, temporary));
}
