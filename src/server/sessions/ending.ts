/** How a hosted session ends here: saved where the server ends, with all that it has where it is deleted, or lost to another server. */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock } from '../../storage/contract.ts';
import { noSession } from '../access/rights.ts';
import type { Permissions } from '../permissions/permissions.ts';
import type { SessionTurns } from '../turns/session-turns.ts';
import type { EventWriter } from './event-writer.ts';
import type { Executions } from './executions.ts';
import type { Lodging } from './lodging.ts';
import type { Outputs } from './outputs.ts';
import { doubtful, elsewhere } from './ownership.ts';
import type { Requests } from './requests.ts';
import type { Upkeep } from './upkeep.ts';

export interface EndingParts {
  readonly sessionId: string;
  readonly lock: Lock;
  readonly writer: EventWriter;
  readonly outputs: Outputs;
  readonly requests: Requests;
  readonly lodging: Lodging;
  readonly executions: Executions;
  readonly turns: SessionTurns;
  readonly permissions: Permissions;
  readonly upkeep: Upkeep;
  /** Told when another server has taken it. */
  readonly onForsaken: () => void;
}

export class Ending {
  readonly #parts: EndingParts;
  #why: CellaError | 'deleted' | undefined;

  constructor(parts: EndingParts) {
    this.#parts = parts;
  }

  /** Undefined while it goes on. */
  get why(): CellaError | 'deleted' | undefined {
    return this.#why;
  }

  /** From here on the loss of the lock ends it. */
  heedLock(): void {
    const { lock } = this.#parts;
    lock.watch((state) => {
      if (state === 'doubtful') this.abort(doubtful());
      if (state === 'lost') void this.#forsake();
    });
    // One that is doubtful may turn out to be held.
    if (lock.state === 'lost') void this.#forsake();
  }

  /** Throws where nothing may begin any more, or not now. */
  checkOpen(): void {
    const { sessionId, lock } = this.#parts;
    if (this.#why instanceof CellaError) throw this.#why;
    if (this.#why) throw noSession(sessionId);
    if (!lock.held) throw doubtful();
  }

  /** What runs ends; the session goes on. */
  abort(why: CellaError): void {
    const { executions, turns } = this.#parts;
    executions.abort(why);
    turns.abort(why);
  }

  /** Saves the names and ends the kernel; readers get the error. */
  async close(why: CellaError): Promise<void> {
    const { lock, writer, lodging, permissions, upkeep } = this.#parts;
    permissions.leave();
    await this.#stop(why);
    await permissions.close();
    try {
      await lodging.close();
      await writer.settled();
      await upkeep.mark();
    } finally {
      await this.#finish(why);
      await lock.release().catch(() => {}); // where storage is away, it ends by itself
    }
  }

  /** Ends the kernel without saving. The log, the files and the requests are gone after it. */
  async destroy(): Promise<void> {
    const { sessionId, lock, writer, outputs, requests, lodging, turns, permissions } = this.#parts;
    await this.#stop(noSession(sessionId));
    await permissions.close();
    await writer.write({ type: 'session_state', change: 'deleted' }).catch(() => {}); // storage does not work; deleting tells
    await this.#finish('deleted');
    await lodging.destroy();
    await requests.remove();
    await turns.remove();
    await outputs.remove();
    await lock.release();
  }

  /** Another server has it: what runs here ends at once, unsaved, and whoever waits or reads along is told. */
  async #forsake(): Promise<void> {
    const { writer, lodging, permissions, onForsaken } = this.#parts;
    const why = elsewhere();
    this.#why ??= why;
    onForsaken();
    writer.tell();
    permissions.leave();
    this.abort(why);
    const over = this.#stop(why);
    // What they still want to write is refused.
    await Promise.allSettled([lodging.abandon(), over, permissions.close()]);
    await this.#finish(why);
  }

  async #stop(why: CellaError): Promise<void> {
    const { executions, turns } = this.#parts;
    await Promise.all([turns.close(why), executions.close(why)]);
  }

  async #finish(why: CellaError | 'deleted'): Promise<void> {
    const { writer } = this.#parts;
    this.#why ??= why;
    await writer.close();
    writer.tell();
  }
}
