/** The open sessions of this server: each is opened once, by its first caller, and closed after a long time without use. */

import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { drainingError } from '../server-control.ts';
import { ServerSession } from './server-session.ts';
import { type SessionDefinition, type SessionDefinitions, toSessionInfo } from './session-definitions.ts';
import type { SessionServices } from './session-types.ts';

interface OpenSession {
  readonly opening: Promise<ServerSession>;
  /** The session, once it is open. */
  opened?: ServerSession;
  /** When it was last used. */
  usedAt: number;
}

export class OpenSessions {
  readonly #services: SessionServices;
  readonly #definitions: SessionDefinitions;
  readonly #open = new Map<string, OpenSession>();
  readonly #closing = new Map<string, Promise<void>>();
  #stopped = false;

  constructor(services: SessionServices, definitions: SessionDefinitions) {
    this.#services = services;
    this.#definitions = definitions;
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Undefined if it is not open, or could not be opened. */
  async find(id: string): Promise<ServerSession | undefined> {
    await this.#closing.get(id);
    return await this.#open.get(id)?.opening.catch(() => undefined);
  }

  /** The session, if it is open, and its definition is known without reading storage. */
  findCurrent(id: string): ServerSession | undefined {
    const session = this.#open.get(id)?.opened;
    return session?.storedDefinition?.life === 'present' ? session : undefined;
  }

  /** `state`: as another server reports it. */
  async describe(definition: SessionDefinition, state: SessionInfo['state'] = 'hibernated'): Promise<SessionInfo> {
    const session = await this.find(definition.id);
    return toSessionInfo(definition, session ?? { state, queued: 0 });
  }

  /** Opens it if needed. */
  async get(id: string): Promise<ServerSession> {
    const known = this.#open.get(id);
    if (known) {
      known.usedAt = performance.now();
      return await known.opening;
    }
    const definition = await this.#definitions.get(id);
    // Another caller may have opened it meanwhile.
    return await (this.#open.get(id)?.opening ?? this.openNew(definition));
  }

  /** Opens a session that is not open. */
  async openNew(definition: SessionDefinition): Promise<ServerSession> {
    // A session that opens after `close` would never be closed.
    if (this.#stopped) throw drainingError();
    const { id } = definition;
    const closed = this.#closing.get(id);
    const open = () => ServerSession.open(this.#services, definition);
    const opening = closed ? closed.then(open) : open();
    const entry: OpenSession = { opening, usedAt: performance.now() };
    this.#open.set(id, entry);
    opening.then(
      (session) => {
        entry.opened = session;
      },
      () => this.remove(id), // its callers get the error
    );
    return await opening;
  }

  get ids(): Iterable<string> {
    return this.#open.keys();
  }

  /** Includes sessions that are still opening. */
  get openings(): Promise<ServerSession>[] {
    return [...this.#open.values()].map(({ opening }) => opening);
  }

  /** Closes sessions that were not used in this time, and that have no kernel, no reader and no work. */
  async closeUnused(afterMs: number): Promise<void> {
    const isOld = ({ usedAt }: OpenSession) => performance.now() - usedAt >= afterMs;
    for await (const [id, entry] of inSlices([...this.#open])) {
      const { opened: session } = entry;
      // No await until it is out of the map: a caller who asks now opens it again, after it is closed.
      if (!session?.isUnused || !isOld(entry) || this.#open.get(id) !== entry || this.#stopped) continue;
      this.remove(id);
      const closing = session.close(closedAsUnused()).catch(() => {}); // storage fails: its lock expires
      this.#closing.set(id, closing);
      await closing;
      this.#closing.delete(id);
    }
  }

  /** Without sessions that could not be opened. */
  async all(): Promise<ServerSession[]> {
    await Promise.all(this.#closing.values());
    const all = await Promise.allSettled(this.openings);
    return all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  }

  /** It is closed or deleted: the next caller opens it again. */
  remove(id: string): void {
    this.#open.delete(id);
  }

  /** Another server has taken it over: requests are forwarded there. */
  async removeLost(session: ServerSession): Promise<void> {
    const known = this.#open.get(session.id);
    const current = await known?.opening.catch(() => undefined); // another one
    if (current === session && this.#open.get(session.id) === known) this.remove(session.id);
  }

  /** From now on no session is opened. */
  stopOpening(): void {
    this.#stopped = true;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }
}

/** For callers who still hold the session. */
function closedAsUnused(): CellaError {
  return new CellaError(
    'SESSION_CLOSED',
    'The session was closed because it was not used for a long time. Open it again.',
  );
}
