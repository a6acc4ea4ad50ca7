/** How a session ends on this server: closed and saved, deleted with all it has, or lost to another server. */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock } from '../../storage/contract.ts';
import { sessionNotFound } from '../access/authorization.ts';
import type { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import type { SessionPermissions } from '../permissions/session-permissions.ts';
import type { SessionTurns } from '../turns/session-turns.ts';
import type { IdempotencyStore } from './idempotency.ts';
import type { KernelLease } from './kernel-lease.ts';
import type { SessionRetention } from './retention.ts';
import type { SessionExecutions } from './session-executions.ts';
import { ownedElsewhere, ownershipUncertain } from './session-lock.ts';

export interface SessionEndingParts {
  readonly sessionId: string;
  readonly lock: Lock;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly lease: KernelLease;
  readonly executions: SessionExecutions;
  readonly turns: SessionTurns;
  readonly permissions: SessionPermissions;
  readonly retention: SessionRetention;
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

  /** Throws if nothing may start, for now or for good. */
  checkOpen(): void {
    const { sessionId, lock } = this.#parts;
    if (this.#why instanceof CellaError) throw this.#why;
    if (this.#why) throw sessionNotFound(sessionId);
    if (!lock.held) throw ownershipUncertain();
  }

  /** Ends what runs. The session stays open. */
  abort(why: CellaError): void {
    const { executions, turns } = this.#parts;
    executions.abort(why);
    turns.abort(why);
  }

  /** Saves the variables and ends the kernel. Readers get the error. */
  async close(why: CellaError): Promise<void> {
    const { lock, log: writer, lease, permissions, retention } = this.#parts;
    permissions.beginShutdown();
    await this.#stop(why);
    await permissions.close();
    try {
      await lease.close();
      await writer.settled();
      await retention.saveRecoveryPosition();
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

  /** Another server has taken it over: ends what runs here at once, unsaved. Callers and readers get the error. */
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
