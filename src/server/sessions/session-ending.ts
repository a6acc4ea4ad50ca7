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
import type { ExecutionQueue } from './session-executions.ts';
import { ownedElsewhere, ownershipUncertain } from './session-lock.ts';

export interface SessionEndingParts {
  readonly sessionId: string;
  readonly lock: Lock;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly lease: KernelLease;
  readonly executions: ExecutionQueue;
  readonly turns: SessionTurns;
  readonly permissions: SessionPermissions;
  readonly retention: SessionRetention;
  /** Told when another server has taken it. */
  readonly onOwnershipLost: () => void;
}

export class SessionEnding {
  readonly #parts: SessionEndingParts;
  #why: CellaError | 'deleted' | undefined;

  constructor(parts: SessionEndingParts) {
    this.#parts = parts;
  }

  /** Undefined while it goes on. */
  get why(): CellaError | 'deleted' | undefined {
    return this.#why;
  }

  /** From here on the loss of the lock ends it. */
  watchLock(): void {
    const { lock } = this.#parts;
    lock.watch((state) => {
      if (state === 'doubtful') this.abort(ownershipUncertain());
      if (state === 'lost') void this.#ownershipLost();
    });
    // One that is doubtful may turn out to be held.
    if (lock.state === 'lost') void this.#ownershipLost();
  }

  /** Throws where nothing may begin any more, or not now. */
  checkOpen(): void {
    const { sessionId, lock } = this.#parts;
    if (this.#why instanceof CellaError) throw this.#why;
    if (this.#why) throw sessionNotFound(sessionId);
    if (!lock.held) throw ownershipUncertain();
  }

  /** What runs ends; the session goes on. */
  abort(why: CellaError): void {
    const { executions, turns } = this.#parts;
    executions.abort(why);
    turns.abort(why);
  }

  /** Saves the names and ends the kernel; readers get the error. */
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
      await lock.release().catch(() => {}); // where storage is away, it ends by itself
    }
  }

  /** Ends the kernel without saving. The log, the files and the requests are gone after it. */
  async destroy(): Promise<void> {
    const { sessionId, lock, log: writer, outputs, requests, lease, turns, permissions } = this.#parts;
    await this.#stop(sessionNotFound(sessionId));
    await permissions.close();
    await writer.write({ type: 'session_state', change: 'deleted' }).catch(() => {}); // storage does not work; deleting tells
    await this.#finish('deleted');
    await lease.destroy();
    await requests.remove();
    await turns.remove();
    await outputs.remove();
    await lock.release();
  }

  /** Another server has it: what runs here ends at once, unsaved, and whoever waits or reads along is told. */
  async #ownershipLost(): Promise<void> {
    const { log: writer, lease, permissions, onOwnershipLost: onForsaken } = this.#parts;
    const why = ownedElsewhere();
    this.#why ??= why;
    onForsaken();
    writer.notifyReaders();
    permissions.beginShutdown();
    this.abort(why);
    const over = this.#stop(why);
    // What they still want to write is refused.
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
