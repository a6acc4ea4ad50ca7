/**
 * Who is asking, and what they may do. Routes speak to this and to nothing below it.
 *
 * Methods that take `by` check that this principal may do it, and fail with FORBIDDEN, or with NOT_FOUND where it must
 * not even know. Whatever is revoked, disabled or deleted ends with the next call: nothing is cached.
 */

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
import type { TrimLimits } from '../../storage/contract.ts';

export interface Access extends AsyncDisposable {
  readonly users: Users;
  readonly tokens: Tokens;
  /** Of executors. */
  readonly sessionTokens: SessionTokens;
  readonly logins: Logins;
  readonly audit: Audit;
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
  readonly credential: Credential;
}

/** `id` is safe to be shown, and is the key of the rate limit. */
export type Credential =
  | { readonly kind: 'token'; readonly id: string; readonly name: string }
  | { readonly kind: 'login'; readonly id: string; readonly tokenId?: string }
  | { readonly kind: 'daemon'; readonly id: 'daemon' };

export interface Users {
  /** For `admin`. USER_EXISTS where the name is taken, by one of two at once too. */
  create(by: Principal, user: CreateUser): Promise<User>;
  /** By name or id: oneself, or anybody for `admin`. NOT_FOUND. */
  get(by: Principal, nameOrId: string): Promise<User>;
  /** For `admin`. By name. */
  list(by: Principal, options?: PageOptions): Promise<Page<User>>;
  /** For `admin`. `local` stays an enabled admin. */
  update(by: Principal, nameOrId: string, changes: UpdateUser): Promise<User>;
  /** For `admin`. With all tokens and logins, and not `local`. Its sessions are the caller's to delete first. */
  delete(by: Principal, nameOrId: string): Promise<void>;
  /** For the daemon's own use: asks nobody's leave. */
  find(nameOrId: string): Promise<User | undefined>;
}

export interface PageOptions {
  readonly after?: string;
  readonly limit?: number;
}

export interface Page<T> {
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
  look(token: string): Promise<TokenBinding>;
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
export interface Audit {
  /** Durable when it resolves. */
  append(entry: AuditEntry): Promise<void>;
  /** Soon, together with what comes meanwhile: for what is done often, and also stands in the log of a session. */
  note(entry: AuditEntry): Promise<void>;
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
  read(by: Principal, options?: AuditOptions): AsyncIterable<AuditRecord>;
  /** For `admin`. As `read`, and looks through a bounded part of the log: `next` says where to go on, up to `last`. */
  page(by: Principal, options?: AuditOptions): Promise<AuditPage>;
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

export interface AuditOptions {
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

export interface Usage {
  readonly sessions: number;
  readonly liveKernels: number;
  readonly memoryMb: number;
  readonly storageBytes: number;
}

/** QUOTA_EXCEEDED has `details` { quota, limit, used, asked, retryAfterMs }. */
export interface QuotaKeeper {
  /** The user's own limits, and the server's where the user has none. */
  of(userId: string): Promise<Quotas>;
  /** Fails where `used` and `asked` together are over a limit. */
  check(userId: string, asked: Partial<Usage>, used: Partial<Usage>): Promise<void>;
  /** Counts one execution of the last minute. `limits`: those of the user, where they are known already. */
  countExecution(userId: string, limits?: Quotas): Promise<void>;
}
