/** The sessions that this server has in use: each is opened once, for whoever comes first, and stays until the server ends. */

import { stopping } from '../stopping.ts';
import type { Definition } from './definition.ts';
import type { Definitions } from './definitions.ts';
import { HostedSession } from './hosted-session.ts';
import type { HostShare } from './share.ts';

export class OpenSessions {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open = new Map<string, Promise<HostedSession>>();
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
    return await this.#open.get(id)?.catch(() => undefined);
  }

  /** Opens it where nobody has. */
  async get(id: string): Promise<HostedSession> {
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
    const opening = HostedSession.open(this.#share, definition);
    this.#open.set(id, opening);
    opening.catch(() => this.#open.delete(id)); // told to those who wait for it
    return await opening;
  }

  get ids(): Iterable<string> {
    return this.#open.keys();
  }

  /** Those on their way too. */
  get openings(): Iterable<Promise<HostedSession>> {
    return this.#open.values();
  }

  /** Without those that could not be opened. */
  async all(): Promise<HostedSession[]> {
    const all = await Promise.allSettled(this.#open.values());
    return all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  }

  /** It is closed, or gone: whoever asks for it opens it anew. */
  forget(id: string): void {
    this.#open.delete(id);
  }

  /** Another server has it: whoever asks for it is led there. */
  async forsake(session: HostedSession): Promise<void> {
    const known = this.#open.get(session.id);
    const current = await known?.catch(() => undefined); // it is not the one
    if (current === session && this.#open.get(session.id) === known) this.#open.delete(session.id);
  }

  /** No other is opened from here on. */
  shut(): void {
    this.#shut = true;
  }

  get isShut(): boolean {
    return this.#shut;
  }
}
