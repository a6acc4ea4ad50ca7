/** A session's kernel from the pool: kept while it is used, hibernated after it has been idle for long. */

import { CellaError } from '../../protocol/errors.ts';
import type { Session } from '../../session/session.ts';
import type { Storage } from '../../storage/contract.ts';
import { storageKeyOf } from '../ids.ts';
import type { SessionDefinition } from './session-definitions.ts';
import type { SessionServices } from './session-services.ts';

export interface KernelLeaseParts {
  readonly services: SessionServices;
  /** With what is its owner's; what it writes is written by whoever has the session. */
  readonly storage: Storage;
  /** As it is now: other settings begin another kernel, with the same names. */
  readonly definition: () => SessionDefinition;
  /** Told of each session that is opened, once. */
  readonly onSession: (session: Session) => void;
  /** Told when its kernel was put to sleep because nobody used it. */
  readonly onHibernated: () => void;
}

export class KernelLease {
  readonly #parts: KernelLeaseParts;
  readonly key: string;
  #current: { readonly session: Session; readonly definition: SessionDefinition } | undefined;
  #users = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(parts: KernelLeaseParts) {
    this.#parts = parts;
    const { ownerId, agentKey } = parts.definition();
    this.key = storageKeyOf(ownerId, agentKey);
  }

  /** The session that there is now, awake or not. */
  get session(): Session | undefined {
    const session = this.#current?.session;
    return session?.closed ? undefined : session;
  }

  get awake(): boolean {
    return (this.session?.pid ?? 0) > 0;
  }

  get inUse(): boolean {
    return this.#users > 0;
  }

  /** Its kernel does not fall asleep while the work goes on. */
  async use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    clearTimeout(this.#timer);
    this.#users++;
    try {
      return await work(await this.#acquire());
    } finally {
      if (--this.#users === 0) this.#startIdleTimer();
    }
  }

  /** Saves the names and ends the kernel. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#parts.services.pool.shutdown(this.key);
  }

  /** Ends the kernel at once and saves nothing. What was saved stays. */
  async abandon(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    // It may still be on its way.
    const shut = this.#parts.services.pool.shutdown(this.key);
    // What they would still write is refused, and that is all that can go wrong.
    await Promise.allSettled([this.#current?.session.abandon(), shut]);
  }

  /** Ends the kernel and keeps nothing. */
  async destroy(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    // Whoever erases the session removes its files, unless others work in them.
    await this.session?.destroy({ keepFiles: true });
    await this.#parts.services.pool.shutdown(this.key);
  }

  /** Gives another one a kernel with the same memory. */
  async fork(other: KernelLease, from: string | undefined): Promise<void> {
    const { pool } = this.#parts.services;
    const wanted = { agentKey: other.key, ...(from === undefined ? {} : { from }) };
    await pool.fork(this.key, wanted, this.#options, other.#own);
  }

  /** What no other session has. */
  get #own() {
    const { services, storage, definition } = this.#parts;
    return { storage, ...services.kernelHooks(definition()) };
  }

  get #options() {
    const { settings, folderIds } = this.#parts.definition();
    return { ...settings, ...(folderIds ? { folderIds } : {}), ...this.#own };
  }

  async #acquire(): Promise<Session> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
    const definition = this.#parts.definition();
    const known = this.session;
    const same = this.#current?.definition.settings === definition.settings;
    // Other settings would end the kernel under those who use it: they hold from the moment when nobody does.
    if (known && (same || this.#users > 1)) return known;
    const session = await this.#parts.services.pool.acquire(this.key, this.#options);
    const isNew = session !== this.#current?.session;
    this.#current = { session, definition };
    if (isNew) this.#parts.onSession(session);
    return session;
  }

  #startIdleTimer(): void {
    const { idleTtlMs } = this.#parts.services;
    if (idleTtlMs === 0 || this.#closed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#hibernate(), idleTtlMs).unref();
  }

  async #hibernate(): Promise<void> {
    if (!this.awake) return;
    try {
      await this.session?.hibernate();
      this.#parts.onHibernated();
    } catch {
      // Told to its next caller, where it still matters then; it is tried again after that.
    }
  }
}
