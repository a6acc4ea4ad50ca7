/** The sessions that this server has in use: each is opened once, for whoever comes first, and closed when long unused. */

import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { stopping } from '../stopping.ts';
import type { Definition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import { HostedSession } from './hosted-session.ts';
import type { HostShare } from './share.ts';

export class OpenSessions {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open = new Map<string, Promise<HostedSession>>();
  /** When somebody last asked for it. */
  readonly #usedAt = new Map<string, number>();
  readonly #closing = new Map<string, Promise<void>>();
  #shut = false;

  constructor(share: HostShare, definitions: Definitions) {
    this.#share = share;
    this.#definitions = definitions;
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Undefined where nobody has opened it, or it could not be opened. */
  async find(id: string): Promise<HostedSession | undefined> {
    await this.#closing.get(id);
    return await this.#open.get(id)?.catch(() => undefined);
  }

  /** Opens it where nobody has. */
  async get(id: string): Promise<HostedSession> {
    if (this.#open.has(id)) this.#usedAt.set(id, performance.now());
    const definition = this.#open.has(id) ? undefined : await this.#definitions.get(id);
    const known = this.#open.get(id);
    if (known || !definition) return await (known ?? this.get(id));
    return await this.enter(definition);
  }

  /** Opens one that nobody has opened. */
  async enter(definition: Definition): Promise<HostedSession> {
    // Nobody would close what is opened after the others are closed.
    if (this.#shut) throw stopping();
    const { id } = definition;
    const closed = this.#closing.get(id);
    const open = () => HostedSession.open(this.#share, definition);
    const opening = closed ? closed.then(open) : open();
    this.#usedAt.set(id, performance.now());
    this.#open.set(id, opening);
    opening.catch(() => this.forget(id)); // told to those who wait for it
    return await opening;
  }

  get ids(): Iterable<string> {
    return this.#open.keys();
  }

  /** Those on their way too. */
  get openings(): Iterable<Promise<HostedSession>> {
    return this.#open.values();
  }

  /** Closes those that nobody has asked for in this time, and that have no kernel, no reader and no work. */
  async closeUnused(afterMs: number): Promise<void> {
    for await (const [id, opening] of inSlices([...this.#open])) {
      const hosted = this.#isOld(id, afterMs) ? await opening.catch(() => undefined) : undefined; // told to those who wait for it
      // Nothing is waited for from here until it is out of the list: whoever asks now opens it anew, when it is closed.
      if (!hosted?.isUnused || !this.#isOld(id, afterMs) || this.#open.get(id) !== opening || this.#shut) continue;
      this.forget(id);
      const closing = hosted.close(unused()).catch(() => {}); // storage does not work: its lock ends by itself
      this.#closing.set(id, closing);
      await closing;
      this.#closing.delete(id);
    }
  }

  #isOld(id: string, afterMs: number): boolean {
    return performance.now() - (this.#usedAt.get(id) ?? 0) >= afterMs;
  }

  /** Without those that could not be opened. */
  async all(): Promise<HostedSession[]> {
    await Promise.all(this.#closing.values());
    const all = await Promise.allSettled(this.#open.values());
    return all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  }

  /** It is closed, or gone: whoever asks for it opens it anew. */
  forget(id: string): void {
    this.#open.delete(id);
    this.#usedAt.delete(id);
  }

  /** Another server has it: whoever asks for it is led there. */
  async forsake(session: HostedSession): Promise<void> {
    const known = this.#open.get(session.id);
    const current = await known?.catch(() => undefined); // it is not the one
    if (current === session && this.#open.get(session.id) === known) this.forget(session.id);
  }

  /** No other is opened from here on. */
  shut(): void {
    this.#shut = true;
  }

  get isShut(): boolean {
    return this.#shut;
  }
}

/** For whoever has held on to it. */
function unused(): CellaError {
  return new CellaError(
    'SESSION_CLOSED',
    'The session was closed here, as nobody had used it for long. Open it again.',
  );
}
