/** A session's kernel from the pool: kept while it is used, released when it is not. */

import { CellaError } from '../../protocol/errors.ts';
import type { Session } from '../../session/session.ts';
import type { Storage } from '../../storage/contract.ts';
import { storageKeyOf } from '../ids.ts';
import type { CurrentDefinition, SessionDefinition } from './session-definitions.ts';
import { allowsRuntimeDeps, type SessionServices } from './session-types.ts';

interface KernelLeaseParts {
  readonly services: SessionServices;
  /** Includes the namespaces of its user. Only the owner of the session can write to it. */
  readonly storage: Storage;
  /** Other settings start another kernel, with the same variables. */
  readonly definition: Pick<CurrentDefinition, 'value'>;
  /** Called once for each session that is opened. */
  readonly onSession: (session: Session) => void;
  /** Called when the kernel was hibernated because it was unused. */
  readonly onHibernated: () => void;
}

export class KernelLease {
  readonly #parts: KernelLeaseParts;
  /** Its agent key in the pool and in storage. */
  readonly key: string;
  #current: { readonly session: Session; readonly definition: SessionDefinition } | undefined;
  #users = 0;
  #closed = false;

  constructor(parts: KernelLeaseParts) {
    this.#parts = parts;
    const { ownerId, agentKey } = parts.definition.value;
    this.key = storageKeyOf(ownerId, agentKey);
  }

  /** The current session, live or hibernated. */
  get session(): Session | undefined {
    const session = this.#current?.session;
    return session?.closed ? undefined : session;
  }

  get isLive(): boolean {
    return (this.session?.pid ?? 0) > 0;
  }

  get inUse(): boolean {
    return this.#users > 0;
  }

  /** The kernel is not hibernated during the work. */
  async use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { services, onHibernated } = this.#parts;
    services.pool.retain(this.key);
    this.#users++;
    try {
      return await work(await this.#acquire());
    } finally {
      if (--this.#users === 0 && !this.#closed) services.pool.release(this.key, onHibernated);
    }
  }

  /** Saves the variables and ends the kernel. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#parts.services.pool.shutdown(this.key);
  }

  /** Ends the kernel at once and saves nothing. What was saved stays. */
  async abandon(): Promise<void> {
    this.#closed = true;
    // A session may still be opening.
    const shut = this.#parts.services.pool.shutdown(this.key);
    // Only remaining writes can fail, which storage refuses.
    await Promise.allSettled([this.#current?.session.abandon(), shut]);
  }

  /** Ends the kernel and deletes its stored data. */
  async destroy(): Promise<void> {
    this.#closed = true;
    // Its files are removed with the session, unless a fork still uses them.
    await this.session?.destroy({ keepFiles: true });
    await this.#parts.services.pool.shutdown(this.key);
  }

  /** Gives another session a kernel with the same memory. */
  async fork(other: KernelLease, from: string | undefined): Promise<void> {
    const { pool } = this.#parts.services;
    const wanted = { agentKey: other.key, from };
    await pool.fork(this.key, wanted, this.#options, other.#own);
  }

  /** Options that differ from session to session. */
  get #own() {
    const { services, storage, definition } = this.#parts;
    return { storage, ...services.kernelHooks(definition.value) };
  }

  get #options() {
    const { settings, folderIds } = this.#parts.definition.value;
    const allowRuntimeDeps = allowsRuntimeDeps(this.#parts.services, settings);
    return { ...settings, allowRuntimeDeps, folderIds, ...this.#own };
  }

  async #acquire(): Promise<Session> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
    const definition = this.#parts.definition.value;
    const known = this.session;
    const same = this.#current?.definition.settings === definition.settings;
    // Other settings would end the kernel while it is in use, so they apply once it is unused.
    if (known && (same || this.#users > 1)) {
      // Code and other servers may have changed the packages since its kernel ended.
      if (!this.isLive) await known.refreshPackages().catch(() => {}); // it then starts with its previous packages
      return known;
    }
    const session = await this.#parts.services.pool.acquire(this.key, this.#options);
    const isNew = session !== this.#current?.session;
    this.#current = { session, definition };
    if (isNew) this.#parts.onSession(session);
    return session;
  }
}
