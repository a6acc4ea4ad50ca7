/** Opens what decides who may use a server: makes the first user and its token where they are missing. */

import type { Quotas } from '../../protocol/access-models.ts';
import type { Clock, Storage, TrimLimits } from '../../storage/contract.ts';
import { makeFolder } from '../../storage/file/durable-files.ts';
import { guarded } from '../../storage/file/file-errors.ts';
import { adminTokenPath, readAdminToken, writeAdminToken } from './admin-token.ts';
import { LoggedAudit } from './audit.ts';
import type { Access, Principal } from './contract.ts';
import { StoredLogins } from './logins.ts';
import { daemonPrincipal, principalOf, unauthenticated } from './principals.ts';
import { CountedQuotas } from './quotas.ts';
import { Buckets, type RateOptions } from './rates.ts';
import { scopesOf } from './rights.ts';
import { newId, newSecret } from './secret.ts';
import { StoredSessionTokens } from './session-tokens.ts';
import { tokenText } from './token-text.ts';
import { StoredTokens } from './tokens.ts';
import { LOCAL, StoredUsers } from './users.ts';

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

export async function openAccess(options: AccessOptions): Promise<Access> {
  const access = new StoredAccess(options);
  await access.prepare(options.dataDir);
  return access;
}

class StoredAccess implements Access {
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
