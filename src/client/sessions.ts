/** The sessions of a server: made, found, changed and deleted. */

import * as sessionRoutes from '../protocol/api/session-routes.ts';
import type { SessionInfo, SessionPage, SessionQuery } from '../protocol/session-info.ts';
import type { Link } from './link.ts';

type Body<E> = E extends { readonly body: { readonly _zod: { readonly output: infer B } } } ? B : never;
/** What `POST /v1/sessions` takes. */
export type SessionWish = NonNullable<Body<typeof sessionRoutes.CreateSession>>;
export type SessionUpdate = Body<typeof sessionRoutes.UpdateSession>;

export interface ListOptions extends Omit<SessionQuery, 'ownerId'> {
  /** The name or id of a user. */
  readonly owner?: string;
}

export class Sessions {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** Also gives the one that has this agent key already, where its options are the same. */
  create(wish: SessionWish = {}): Promise<SessionInfo> {
    return this.#link.call(sessionRoutes.CreateSession, { body: wish });
  }

  /** One page, oldest first; `next` is the `cursor` of the one after it. */
  list({ labels = {}, ...options }: ListOptions = {}): Promise<SessionPage> {
    const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    return this.#link.call(sessionRoutes.ListSessions, { query: { ...options, label } });
  }

  /** All of them, page by page. */
  async *all(options: Omit<ListOptions, 'cursor'> = {}): AsyncGenerator<SessionInfo, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.list({ ...options, ...(cursor === undefined ? {} : { cursor }) });
      yield* page.sessions;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  get(id: string): Promise<SessionInfo> {
    return this.#link.call(sessionRoutes.GetSession, { params: { id } });
  }

  update(id: string, change: SessionUpdate): Promise<SessionInfo> {
    return this.#link.call(sessionRoutes.UpdateSession, { params: { id }, body: change });
  }

  /** Confirms a fork of another user's session, so that its code may use what is yours. For its owner. */
  confirm(id: string): Promise<SessionInfo> {
    return this.#link.call(sessionRoutes.ConfirmFork, { params: { id } });
  }

  /** With all that it has: kernel, workspace, events, checkpoints. */
  async delete(id: string): Promise<void> {
    await this.#link.call(sessionRoutes.DeleteSession, { params: { id } });
  }
}
