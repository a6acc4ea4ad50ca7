/** Trims the events, files and requests of sessions by age and size, but never while code runs. */

import { setTimeout as delay } from 'node:timers/promises';
import { giveWay } from '../../lib/event-loop.ts';
import { singleFlight } from '../../lib/single-flight.ts';
import type { Lock } from '../../storage/contract.ts';
import { writeRecoveryPosition } from '../events/log-recovery.ts';
import { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import { storageKeyOf } from '../ids.ts';
import { IdempotencyStore } from './idempotency.ts';
import type { OpenSessions } from './open-sessions.ts';
import type { CurrentDefinition, SessionDefinition, SessionDefinitions } from './session-definitions.ts';
import { acquireSession, isHeldByOther } from './session-ending.ts';
import type { SessionExecutions } from './session-executions.ts';
import type { SessionServices } from './session-types.ts';

/** How many events there may be after the recovery position before it is written again. */
const SAVE_POSITION_EVERY = 500;

interface SessionTrimmerParts {
  readonly services: SessionServices;
  readonly log: SessionLog;
  readonly definition: Pick<CurrentDefinition, 'value'>;
  readonly executions: Pick<SessionExecutions, 'runExclusive'>;
}

export class SessionTrimmer {
  readonly #parts: SessionTrimmerParts;
  /** Trims the log, the files and the requests. */
  readonly apply = singleFlight(() => this.#parts.executions.runExclusive(() => this.#applyNow()));
  /** Bytes that the log had written at the last trim. */
  #appliedAt = 0;
  #savedPosition: number;

  constructor(parts: SessionTrimmerParts) {
    this.#parts = parts;
    this.#savedPosition = parts.log.state.last;
  }

  async afterExecution(): Promise<void> {
    const { services, log: writer } = this.#parts;
    const { maxBytes } = services.retention;
    if (maxBytes > 0 && writer.bytes - this.#appliedAt > maxBytes / 4) await this.apply();
    else await this.saveRecoveryPosition(SAVE_POSITION_EVERY);
  }

  /** Saves it if at least `every` events came after the last one, and nothing runs. */
  async saveRecoveryPosition(every = 1): Promise<void> {
    const { services, log: writer, definition } = this.#parts;
    const { state: position, isComplete } = writer;
    const open = position.open.length + position.turns.length;
    if (!isComplete || open > 0 || position.last - this.#savedPosition < every) return;
    this.#savedPosition = position.last;
    await writeRecoveryPosition(services.storage, definition.value.id, position.last);
  }

  async #applyNow(): Promise<void> {
    const { services, log: writer, definition } = this.#parts;
    await writer.settled();
    this.#appliedAt = writer.bytes;
    writer.recent.forget(await applyRetention(services, definition.value));
    await this.saveRecoveryPosition();
  }
}

/** Only call it while nothing runs in the session. Returns the number of the last deleted event. */
async function applyRetention(
  services: SessionServices,
  { id, ownerId, agentKey }: SessionDefinition,
): Promise<number> {
  const { storage, dataDir, retention } = services;
  const { maxAgeMs, maxBytes, maxFileBytes } = retention;
  const oldest = maxAgeMs > 0 ? Date.now() - maxAgeMs : 0;
  const floor = await storage.events.trim(storageKeyOf(ownerId, agentKey), {
    ...(maxBytes > 0 ? { maxBytes } : {}),
    ...(maxAgeMs > 0 ? { olderThan: oldest } : {}),
  });
  const outputs = new OutputFiles(dataDir, id);
  await outputs.trim({ olderThan: oldest, maxBytes: maxFileBytes > 0 ? maxFileBytes : Number.POSITIVE_INFINITY });
  await new IdempotencyStore(storage.documents, outputs, id, services.requests).trim();
  return floor;
}

/** Rounds between two that also trim the sessions that are not open. */
const ALL_EVERY = 60;
/** How long one session may delay the others. */
const SESSION_WAIT_MS = 100;

export class RetentionTimer {
  readonly #services: SessionServices;
  readonly #definitions: SessionDefinitions;
  readonly #open: OpenSessions;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #rounds = 0;
  #ended = false;

  constructor(services: SessionServices, definitions: SessionDefinitions, open: OpenSessions) {
    this.#services = services;
    this.#definitions = definitions;
    this.#open = open;
  }

  start(): void {
    if (this.#ended) return;
    this.#timer = setTimeout(() => {
      this.#sweeping = this.#sweep()
        .catch(() => {}) // storage fails; the next round tries again
        .then(() => this.start());
    }, this.#services.sweepEveryMs).unref();
  }

  async stop(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    for (const opening of this.#open.openings) {
      if (this.#ended) return;
      await giveWay();
      // If storage fails, the next round tries again.
      const retained = opening.then((session) => session.applyRetention()).catch(() => {});
      // A session with long-running code is trimmed after it; this round does not wait for that.
      const over = new AbortController();
      await Promise.race([retained, delay(SESSION_WAIT_MS, undefined, over).catch(() => {})]); // it was trimmed first
      over.abort();
    }
    await this.#open.closeUnused(this.#services.closeAfterMs);
    if (this.#rounds++ % ALL_EVERY !== 0) return;
    await this.removeOrphans();
    for await (const definition of this.#definitions.all()) {
      if (this.#ended) return;
      if (definition.life === 'present' && !this.#open.has(definition.id)) await this.#applyTo(definition);
    }
  }

  /** Removes the files of sessions that another server has deleted. */
  async removeOrphans(): Promise<void> {
    const { leftovers } = this.#services;
    const exists = (id: string) => this.#definitions.exists(id);
    if (!leftovers) return;
    for await (const key of leftovers.orphans(exists))
      await this.#withLock(key, (lock) => leftovers.remove(lock, exists));
  }

  async #applyTo(definition: SessionDefinition): Promise<void> {
    const key = storageKeyOf(definition.ownerId, definition.agentKey);
    await this.#withLock(key, async (lock) => {
      const storage = this.#services.storage.fenced(lock);
      await applyRetention({ ...this.#services, storage }, definition);
    });
  }

  /** Its owner trims it. */
  async #withLock(key: string, work: (lock: Lock) => Promise<void>): Promise<void> {
    try {
      await using lock = await acquireSession(this.#services.storage, key);
      await work(lock);
    } catch (error) {
      if (!isHeldByOther(error)) throw error;
    }
  }
}
