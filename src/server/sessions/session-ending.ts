/**
 * Who owns a session, and how it ends on this server: closed and saved, deleted with all its data, or lost to another server.
 * One server owns it at a time, by a lock on its key in the shared storage. All
 * writes for a session go through that lock.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock, Storage } from '../../storage/contract.ts';
import { sessionNotFound } from '../access/authorization.ts';
import type { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import type { SessionPermissions } from '../permissions/session-permissions.ts';
import type { SessionTurns } from '../turns/session-turns.ts';
import type { IdempotencyStore } from './idempotency.ts';
import type { KernelLease } from './kernel-lease.ts';
import type { SessionTrimmer } from './retention.ts';
import type { SessionExecutions } from './session-executions.ts';

interface SessionEndingParts {
  readonly sessionId: string;
  readonly lock: Lock;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly lease: KernelLease;
  readonly executions: SessionExecutions;
  readonly turns: SessionTurns;
  readonly permissions: SessionPermissions;
  readonly trimmer: SessionTrimmer;
  /** Called when another server has taken it over. */
  readonly onOwnershipLost: () => void;
}

export class SessionEnding {
  readonly #parts: SessionEndingParts;
  #why: CellaError | 'deleted' | undefined;

  constructor(parts: SessionEndingParts) {
    this.#parts = parts;
  }

  /** Why it has ended; undefined while it is open. */
  get why(): CellaError | 'deleted' | undefined {
    return this.#why;
  }

  /** Whether it is open, and no other server can have the session. */
  get isOwner(): boolean {
    return this.#why === undefined && this.#parts.lock.held;
  }

  /** From now on, losing the lock ends the session. */
  watchLock(): void {
    const { lock } = this.#parts;
    lock.watch((state) => {
      if (state === 'uncertain') this.abort(ownershipUncertain());
      if (state === 'lost') void this.#ownershipLost();
    });
    // An uncertain lock may turn out to be held.
    if (lock.state === 'lost') void this.#ownershipLost();
  }

  /** Throws if nothing may start, now or ever again. */
  checkOpen(): void {
    const { sessionId, lock } = this.#parts;
    if (this.#why instanceof CellaError) throw this.#why;
    if (this.#why) throw sessionNotFound(sessionId);
    if (!lock.held) throw ownershipUncertain();
  }

  /** Ends running executions and turns. The session stays open. */
  abort(why: CellaError): void {
    const { executions, turns } = this.#parts;
    executions.abort(why);
    turns.abort(why);
  }

  /** Saves the variables and ends the kernel. Readers get the error. */
  async close(why: CellaError): Promise<void> {
    const { lock, log: writer, lease, permissions, trimmer } = this.#parts;
    permissions.beginShutdown();
    await this.#stop(why);
    await permissions.close();
    try {
      await lease.close();
      await writer.settled();
      await trimmer.saveRecoveryPosition();
    } finally {
      await this.#finish(why);
      await lock.release().catch(() => {}); // without storage, it expires
    }
  }

  /** Ends the kernel without saving. Deletes the log, the files and the requests. */
  async destroy(): Promise<void> {
    const { sessionId, lock, log: writer, outputs, requests, lease, turns, permissions } = this.#parts;
    await this.#stop(sessionNotFound(sessionId));
    await permissions.close();
    await writer.write({ type: 'session_state', change: 'deleted' }).catch(() => {}); // if storage fails, deleting throws
    await this.#finish('deleted');
    await lease.destroy();
    await requests.remove();
    await turns.remove();
    await outputs.remove();
    await lock.release();
  }

  /** Another server has taken it over: ends everything here at once, unsaved. Callers and readers get the error. */
  async #ownershipLost(): Promise<void> {
    const { log: writer, lease, permissions, onOwnershipLost } = this.#parts;
    const why = ownedElsewhere();
    this.#why ??= why;
    onOwnershipLost();
    writer.notifyReaders();
    permissions.beginShutdown();
    this.abort(why);
    const over = this.#stop(why);
    // Storage refuses what they still write.
    await Promise.allSettled([lease.abandon(), over, permissions.close()]);
    await this.#finish(why);
  }

  async #stop(why: CellaError): Promise<void> {
    const { executions, turns } = this.#parts;
    await Promise.all([turns.close(why), executions.close(why)]);
  }

  async #finish(why: CellaError | 'deleted'): Promise<void> {
    const { log: writer } = this.#parts;
    this.#why ??= why;
    await writer.close();
    writer.notifyReaders();
  }
}

/** Under this name, others recognise that a server has the lock and can be asked. */
const COMMAND = 'cella serve';
/** How long this server's own maintenance may hold it. */
const OWN_LOCK_WAIT_MS = 30_000;
/** When a retry is worthwhile. */
const RETRY_AFTER_MS = 1000;

/** Throws `SESSION_ELSEWHERE` if another server has it, `KEY_BUSY` if another process does. */
export async function acquireSession({ locks }: Pick<Storage, 'locks'>, key: string, waitMs = 0): Promise<Lock> {
  try {
    const ours = (await locks.ownerOf(key))?.id === locks.id;
    return await locks.acquire(key, { waitMs: ours ? Math.max(waitMs, OWN_LOCK_WAIT_MS) : waitMs, command: COMMAND });
  } catch (error) {
    const busy = error instanceof CellaError && error.code === 'KEY_BUSY' && error.details.command === COMMAND;
    throw busy ? ownedElsewhere(error.details, error.message) : error;
  }
}

export function ownedElsewhere(owner: Readonly<Record<string, unknown>> = {}, how = ''): CellaError {
  const message = how === '' ? 'Another server has this session.' : `Another server has this session: ${how}`;
  return new CellaError('SESSION_ELSEWHERE', message, { details: { ...owner, retryAfterMs: RETRY_AFTER_MS } });
}

/** Whether another server or process has it. */
export function isHeldByOther(error: unknown): boolean {
  return error instanceof CellaError && (error.code === 'SESSION_ELSEWHERE' || error.code === 'KEY_BUSY');
}

/** Nothing starts until it is known who holds the lock. */
export function ownershipUncertain(): CellaError {
  const message = 'Storage has not answered for so long that another server may have taken over this session.';
  return new CellaError('STORAGE_UNREACHABLE', message, { details: { retryAfterMs: RETRY_AFTER_MS } });
}
