/** A session's kernel from the pool: kept while it is used, released when it is not. */

import { CellaError } from '../../protocol/errors.ts';
import type { Session } from '../../session/session.ts';
import type { Storage } from '../../storage/contract.ts';
import { storageKeyOf } from '../ids.ts';
import type { SessionDefinition } from './session-definitions.ts';
import type { SessionServices } from './session-services.ts';

export interface KernelLeaseParts {
  readonly services: SessionServices;
  /** With the namespaces of its user. Only the owner of the session can write to it. */
  readonly storage: Storage;
  /** As it is now: other settings start another kernel, with the same variables. */
  readonly definition: () => SessionDefinition;
  /** Called once for each session that is opened. */
  readonly onSession: (session: Session) => void;
  /** Called when its kernel was hibernated because nobody used it. */
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
    const { ownerId, agentKey } = parts.definition();
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
    // All that can fail is what they still write, which storage refuses.
    await Promise.allSettled([this.#current?.session.abandon(), shut]);
  }

  /** Ends the kernel and deletes what is stored of it. */
  async destroy(): Promise<void> {
    this.#closed = true;
    // Its files are removed with the session, unless a fork still works in them.
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
    return { storage, ...services.kernelHooks(definition()) };
  }

  get #options() {
    const { settings, folderIds } = this.#parts.definition();
    return { ...settings, folderIds, ...this.#own };
  }

  async #acquire(): Promise<Session> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
    const definition = this.#parts.definition();
    const known = this.session;
    const same = this.#current?.definition.settings === definition.settings;
    // Other settings would end the kernel under those who use it: they apply once nobody does.
    if (known && (same || this.#users > 1)) return known;
    const session = await this.#parts.services.pool.acquire(this.key, this.#options);
    const isNew = session !== this.#current?.session;
    this.#current = { session, definition };
    if (isNew) this.#parts.onSession(session);
    return session;
  }
}
