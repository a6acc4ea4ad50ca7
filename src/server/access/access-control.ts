/** Who may use the server: opens users, tokens, logins and the audit log, and makes the first user and its admin token. */

import { constants, type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type {
  AuditEntry,
  AuditRecord,
  CreateToken,
  CreateUser,
  Quotas,
  RefusalKind,
  Role,
  Scope,
  TokenInfo,
  UpdateUser,
  User,
} from '../../protocol/access-models.ts';
import type { Clock, Storage, TrimLimits } from '../../storage/contract.ts';
import { makeFolder, syncFolder } from '../../storage/file/durable-files.ts';
import { guarded, systemCode } from '../../storage/file/file-errors.ts';
import { CountedQuotas } from '../quotas/user-quotas.ts';
import { Buckets, type RateOptions } from '../request-limits.ts';
import { LoggedAudit } from './audit-log.ts';
import { daemonPrincipal, principalOf, scopesOf, unauthenticated } from './authorization.ts';
import { StoredLogins } from './logins.ts';
import { newId, newSecret, tokenText } from './secrets.ts';
import { StoredSessionTokens } from './session-tokens.ts';
import { StoredTokens } from './tokens.ts';
import { LOCAL, StoredUsers } from './users.ts';

export interface AccessControl extends AsyncDisposable {
  readonly users: Users;
  readonly tokens: Tokens;
  /** Of executors. */
  readonly sessionTokens: SessionTokens;
  readonly logins: Logins;
  readonly audit: AuditLog;
  readonly rates: Rates;
  /** Of credentials that are wrong, and of those that somebody makes: nobody honest does either often. */
  readonly credentialRates: Rates;
  readonly quotas: QuotaKeeper;
  /** The file with the token of the admin `local`. */
  readonly adminTokenPath: string;
  /** Whose token it is, or UNAUTHENTICATED. Takes the token itself, without `Bearer`. */
  authenticate(token: string): Promise<Principal>;
  /** The admin `local`, for what the daemon does by itself, such as making the first login link. */
  daemon(): Principal;
  /** Removes expired tokens, codes and logins, and the oldest of an audit log that is too long. To be called now and then. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

export interface Principal {
  readonly userId: string;
  readonly userName: string;
  readonly role: Role;
  /** What the role and the credential both allow. */
  readonly scopes: readonly Scope[];
  readonly authMethod: AuthMethod;
}

/** `id` is safe to be shown, and is the key of the rate limit. */
export type AuthMethod =
  | { readonly kind: 'token'; readonly id: string; readonly name: string }
  | { readonly kind: 'login'; readonly id: string; readonly tokenId?: string }
  | { readonly kind: 'daemon'; readonly id: 'daemon' };

export interface Users {
  /** For `admin`. USER_EXISTS where the name is taken, by one of two at once too. */
  create(by: Principal, user: CreateUser): Promise<User>;
  /** By name or id: oneself, or anybody for `admin`. NOT_FOUND. */
  get(by: Principal, nameOrId: string): Promise<User>;
  /** For `admin`. By name. */
  list(by: Principal, options?: UserPageOptions): Promise<UserPage<User>>;
  /** For `admin`. `local` stays an enabled admin. */
  update(by: Principal, nameOrId: string, changes: UpdateUser): Promise<User>;
  /** For `admin`. With all tokens and logins, and not `local`. Its sessions are the caller's to delete first. */
  delete(by: Principal, nameOrId: string): Promise<void>;
  /** For the daemon's own use: asks nobody's leave. */
  find(nameOrId: string): Promise<User | undefined>;
}

export interface UserPageOptions {
  readonly after?: string;
  readonly limit?: number;
}

export interface UserPage<T> {
  readonly items: readonly T[];
  readonly next?: string;
}

export interface Tokens {
  /** For `tokens`; for another user, `admin`. Scopes that the maker does not have are FORBIDDEN, and so are browser logins. */
  create(by: Principal, token: CreateToken): Promise<CreatedToken>;
  /** Of oneself, or of the named user for `admin`; without secrets. In the order in which they were made. */
  list(by: Principal, options?: { readonly user?: string }): Promise<TokenInfo[]>;
  /** From the next call on, nobody gets in with it, nor with a login that was made by it. NOT_FOUND. */
  revoke(by: Principal, tokenId: string): Promise<void>;
}

export interface CreatedToken {
  /** Shown this once. */
  readonly token: string;
  readonly info: TokenInfo;
}

/** What a token of an executor is bound to. `task` is the turn, `executor` the worker, `userId` whoever prompts. */
export interface TokenBinding {
  readonly session: string;
  readonly task: string;
  readonly userId: string;
  readonly executor: string;
}

export interface SessionTokenOptions {
  /** 24 hours by default. */
  readonly ttlMs?: number | undefined;
  /** How many calls it is good for; without it there is no limit, and calls are counted all the same. */
  readonly mostUses?: number | undefined;
}

/** For the daemon's own use: whoever calls has checked that the user may do this. */
export interface SessionTokens {
  /** Gives `cst_<id>_<secret>`, which storage never has. */
  issue(
    by: { readonly userId: string },
    binding: Omit<TokenBinding, 'userId'>,
    options?: SessionTokenOptions,
  ): Promise<string>;
  /**
   * What it is bound to, and counts the call. UNAUTHENTICATED with `details.reason` (`unknown`, `expired`, `used_up`,
   * `user`), and FORBIDDEN with `details.mismatch` where it is bound to something else than expected.
   */
  check(token: string, expected?: Partial<TokenBinding>): Promise<TokenBinding>;
  /** The same, without a call to count: the server itself wants to know whether it is still good. */
  peek(token: string): Promise<TokenBinding>;
  /** At the end of a task. From the next call on, nobody gets in with its tokens. */
  revoke(task: string): Promise<void>;
  revokeExecutor(executor: string): Promise<void>;
  forgetSession(session: string): Promise<void>;
  /** Removes what has expired. */
  sweep(): Promise<void>;
}

export interface Logins {
  /** A code for a login link, as this principal, or as another user for `admin`. It works once and not for long. */
  createCode(by: Principal, user?: string): Promise<{ readonly code: string; readonly expiresAt: number }>;
  /** A login in exchange for a code, or UNAUTHENTICATED. Of two at once with the same code, one gets it. */
  redeem(code: string): Promise<BrowserLogin>;
  /** A login as this principal, for whoever has shown a token. It ends when the token does. */
  open(by: Principal): Promise<BrowserLogin>;
  /** Whose cookie it is, or UNAUTHENTICATED. */
  authenticate(cookie: string): Promise<Principal>;
  /** What the page must send along with whatever changes something. */
  csrfOf(cookie: string): string;
  /** FORBIDDEN where it is not what `csrfOf` gives. */
  checkCsrf(cookie: string, given: string | undefined): void;
  /** False where it was over before. */
  logout(cookie: string): Promise<boolean>;
  /** Ends all logins and login links of oneself, or of another user for `admin`. */
  logoutUser(by: Principal, user: string): Promise<void>;
}

export interface BrowserLogin {
  /** The value of the cookie: http-only, same-site. */
  readonly cookie: string;
  readonly csrf: string;
  readonly expiresAt: number;
  readonly principal: Principal;
}

/** Numbered, and only ever added to at one end; a log that is too long loses its oldest. No agent key reaches it. */
export interface AuditLog {
  /** Durable when it resolves. */
  append(entry: AuditEntry): Promise<void>;
  /** Soon, together with what comes meanwhile: for what is done often, and also stands in the log of a session. */
  appendSoon(entry: AuditEntry): Promise<void>;
  /**
   * Counts what was refused, and writes it down soon: the first few of a kind by one user or address each, the rest as
   * `suppressed` of the next entry. Nobody waits for it, and it never fails.
   */
  refused(refusal: Refusal): void;
  /** How many of each kind were refused since the server began. */
  readonly refusals: ReadonlyMap<RefusalKind, number>;
  /** Writes what was noted. */
  flush(): Promise<void>;
  /** For `admin`. From the first after `after`, in order. */
  read(by: Principal, options?: AuditQuery): AsyncIterable<AuditRecord>;
  /** For `admin`. As `read`, and looks through a bounded part of the log: `next` says where to go on, up to `last`. */
  page(by: Principal, options?: AuditQuery): Promise<AuditPage>;
  trim(limits: TrimLimits): Promise<void>;
}

/** `action` is `refused` where it came by no route, and `from` is `local` where it came by no connection. */
export type Refusal = Omit<AuditEntry, 'kind' | 'outcome' | 'suppressed' | 'action' | 'from'> & {
  readonly kind: RefusalKind;
  readonly action?: string;
  readonly from?: string;
  /** `refused` where nothing is said. */
  readonly outcome?: 'refused' | 'failed';
};

export interface AuditPage {
  readonly entries: readonly AuditRecord[];
  /** The number of the last entry that was looked at, for `after`. */
  readonly next: number;
  /** The number of the last entry that there is. */
  readonly last: number;
}

export interface AuditQuery {
  readonly after?: number;
  readonly limit?: number;
  readonly userId?: string;
  readonly session?: string;
}

/** So many requests at once, and then so many a second, for each key. In the memory of this daemon. */
export interface Rates {
  /** Counts a request, or fails with RATE_LIMITED and `details.retryAfterMs`. `cost`: how many it counts as; 1. */
  admit(key: string, cost?: number): void;
}

export interface ResourceUsage {
  readonly sessions: number;
  readonly liveKernels: number;
  readonly memoryMb: number;
  readonly storageBytes: number;
}

/** QUOTA_EXCEEDED has `details` { quota, limit, used, asked, retryAfterMs }. */
export interface QuotaKeeper {
  /** The user's own limits, and the server's where the user has none. */
  limitsOf(userId: string): Promise<Quotas>;
  /** Fails where `used` and `asked` together are over a limit. */
  check(userId: string, asked: Partial<ResourceUsage>, used: Partial<ResourceUsage>): Promise<void>;
  /** Counts one execution of the last minute. `limits`: those of the user, where they are known already. */
  countExecution(userId: string, limits?: Quotas): Promise<void>;
}

export interface AccessOptions {
  readonly storage: Pick<Storage, 'documents' | 'events'>;
  /** Where `admin-token` lies. */
  readonly dataDir: string;
  readonly rates?: RateOptions | undefined;
  /** Of wrong credentials, and of those that are made. */
  readonly credentialRates?: RateOptions | undefined;
  /** For users that have no limit of their own. */
  readonly quotas?: Quotas | undefined;
  /** How much of the audit log `sweep` leaves: 1 GB and a million entries by default. */
  readonly auditLimits?: TrimLimits | undefined;
  readonly clock?: Clock;
  /** Milliseconds that never go back, for quotas. */
  readonly elapsed?: () => number;
}

const AUDIT_LIMITS: TrimLimits = { maxBytes: 1024 ** 3, maxEvents: 1_000_000 };

/** Once this is used up, one each two seconds. */
const CREDENTIAL_RATES = { burst: 30, perSecond: 0.5, what: 'Too many tokens, codes or logins' };

export async function openAccess(options: AccessOptions): Promise<AccessControl> {
  const access = new StoredAccess(options);
  await access.prepare(options.dataDir);
  return access;
}

class StoredAccess implements AccessControl {
  readonly users: StoredUsers;
  readonly tokens: StoredTokens;
  readonly sessionTokens: StoredSessionTokens;
  readonly logins: StoredLogins;
  readonly audit: LoggedAudit;
  readonly rates: Buckets;
  readonly credentialRates: Buckets;
  readonly quotas: CountedQuotas;
  readonly adminTokenPath: string;
  readonly #clock: Clock;
  readonly #auditLimits: TrimLimits;

  constructor(options: AccessOptions) {
    const { storage, dataDir, rates, credentialRates, quotas, auditLimits, clock = Date.now, elapsed } = options;
    const { documents, events } = storage;
    this.#clock = clock;
    this.#auditLimits = auditLimits ?? AUDIT_LIMITS;
    this.users = new StoredUsers({ documents, clock, forget: (userId) => this.#forget(userId) });
    this.tokens = new StoredTokens({ documents, clock, users: this.users });
    this.credentialRates = new Buckets({ ...CREDENTIAL_RATES, ...(elapsed ? { elapsed } : {}), ...credentialRates });
    const failures = this.credentialRates;
    this.sessionTokens = new StoredSessionTokens({ documents, clock, users: this.users, failures });
    this.logins = new StoredLogins({ documents, clock, users: this.users, tokens: this.tokens });
    this.audit = new LoggedAudit(events);
    this.rates = new Buckets(rates);
    this.quotas = new CountedQuotas({ users: this.users, defaults: quotas, elapsed });
    this.adminTokenPath = adminTokenPath(dataDir);
  }

  async authenticate(token: string): Promise<Principal> {
    const found = await this.tokens.verify(token);
    if (!found) throw unauthenticated();
    return principalOf(this.users, found.value, { kind: 'token', id: found.id, name: found.value.name });
  }

  daemon(): Principal {
    return daemonPrincipal;
  }

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
    await guarded('use', dataDir, () => makeFolder(dataDir));
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

const MOST_BYTES = 200;

/** `exposed`: others could have read it, so its token must not be used any more. */
type AdminTokenFile =
  | { readonly kind: 'missing' }
  | { readonly kind: 'private'; readonly token: string }
  | { readonly kind: 'exposed'; readonly token: string };

const adminTokenPath = (dataDir: string): string => join(dataDir, 'admin-token');

export async function readAdminToken(path: string): Promise<AdminTokenFile> {
  const file = await openFile(path);
  if (!file) return { kind: 'missing' };
  try {
    const { size, mode, uid } = await file.stat();
    // Somebody else's file, a folder or a pipe is none; what is written takes its place, or says why it cannot.
    const isOurs = (mode & constants.S_IFMT) === constants.S_IFREG && uid === process.geteuid?.();
    if (!isOurs || size > MOST_BYTES) return { kind: 'missing' };
    const token = (await file.readFile('utf8')).trim();
    return { kind: (mode & 0o077) === 0 ? 'private' : 'exposed', token };
  } finally {
    await file.close();
  }
}

async function writeAdminToken(path: string, token: string): Promise<void> {
  const fresh = join(dirname(path), '.admin-token.new');
  await guarded('write', path, async () => {
    await rm(fresh, { force: true });
    const file = await open(fresh, 'wx', 0o600);
    try {
      await file.chmod(0o600);
      await file.writeFile(`${token}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(fresh, path);
    await syncFolder(dirname(path));
  });
}

async function openFile(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENXIO' || code === 'EACCES') return undefined;
    return guarded('read', path, () => Promise.reject(error));
  }
}
