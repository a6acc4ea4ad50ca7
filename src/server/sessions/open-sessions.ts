/** The sessions that this server has in use: each is opened once, for whoever comes first, and closed when long unused. */

import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { drainingError } from '../request-errors.ts';
import { ServerSession } from './server-session.ts';
import type { SessionDefinition, SessionDefinitions } from './session-definitions.ts';
import type { SessionServices } from './session-services.ts';

export class OpenSessions {
  readonly #services: SessionServices;
  readonly #definitions: SessionDefinitions;
  readonly #open = new Map<string, Promise<ServerSession>>();
  /** When somebody last asked for it. */
  readonly #usedAt = new Map<string, number>();
  readonly #closing = new Map<string, Promise<void>>();
  #stopped = false;

  constructor(share: SessionServices, definitions: SessionDefinitions) {
    this.#services = share;
    this.#definitions = definitions;
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Undefined where nobody has opened it, or it could not be opened. */
  async find(id: string): Promise<ServerSession | undefined> {
    await this.#closing.get(id);
    return await this.#open.get(id)?.catch(() => undefined);
  }

  /** Opens it where nobody has. */
  async get(id: string): Promise<ServerSession> {
    if (this.#open.has(id)) this.#usedAt.set(id, performance.now());
    const definition = this.#open.has(id) ? undefined : await this.#definitions.get(id);
    const known = this.#open.get(id);
    if (known || !definition) return await (known ?? this.get(id));
    return await this.openNew(definition);
  }

  /** Opens one that nobody has opened. */
  async openNew(definition: SessionDefinition): Promise<ServerSession> {
    // Nobody would close what is opened after the others are closed.
    if (this.#stopped) throw drainingError();
    const { id } = definition;
    const closed = this.#closing.get(id);
    const open = () => ServerSession.open(this.#services, definition);
    const opening = closed ? closed.then(open) : open();
    this.#usedAt.set(id, performance.now());
    this.#open.set(id, opening);
    opening.catch(() => this.remove(id)); // told to those who wait for it
    return await opening;
  }

  get ids(): Iterable<string> {
    return this.#open.keys();
  }

  /** Those on their way too. */
  get openings(): Iterable<Promise<ServerSession>> {
    return this.#open.values();
  }

  /** Closes those that nobody has asked for in this time, and that have no kernel, no reader and no work. */
  async closeUnused(afterMs: number): Promise<void> {
    for await (const [id, opening] of inSlices([...this.#open])) {
      const hosted = this.#isOld(id, afterMs) ? await opening.catch(() => undefined) : undefined; // told to those who wait for it
      // Nothing is waited for from here until it is out of the list: whoever asks now opens it anew, when it is closed.
      if (!hosted?.isUnused || !this.#isOld(id, afterMs) || this.#open.get(id) !== opening || this.#stopped) continue;
      this.remove(id);
      const closing = hosted.close(closedAsUnused()).catch(() => {}); // storage does not work: its lock ends by itself
      this.#closing.set(id, closing);
      await closing;
      this.#closing.delete(id);
    }
  }

  #isOld(id: string, afterMs: number): boolean {
    return performance.now() - (this.#usedAt.get(id) ?? 0) >= afterMs;
  }

  /** Without those that could not be opened. */
  async all(): Promise<ServerSession[]> {
    await Promise.all(this.#closing.values());
    const all = await Promise.allSettled(this.#open.values());
    return all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  }

  /** It is closed, or gone: whoever asks for it opens it anew. */
  remove(id: string): void {
    this.#open.delete(id);
    this.#usedAt.delete(id);
  }

  /** Another server has it: whoever asks for it is led there. */
  async removeLost(session: ServerSession): Promise<void> {
    const known = this.#open.get(session.id);
    const current = await known?.catch(() => undefined); // it is not the one
    if (current === session && this.#open.get(session.id) === known) this.remove(session.id);
  }

  /** No other is opened from here on. */
  stopOpening(): void {
    this.#stopped = true;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }
}

/** For whoever has held on to it. */
function closedAsUnused(): CellaError {
  return new CellaError(
    'SESSION_CLOSED',
    'The session was closed here, as nobody had used it for long. Open it again.',
  );
}
