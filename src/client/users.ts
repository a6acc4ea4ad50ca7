/** The users of a server; but for oneself they are for administrators. */

import type { CreateUser, UpdateUser, User } from '../protocol/access-models.ts';
import * as accessRoutes from '../protocol/api/access-routes.ts';
import type { Link } from './link.ts';

const PAGE = 200;

/** Users go by their name or id. */
export class Users {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** `USER_EXISTS` where the name is taken. */
  create({ name, role = 'member', quotas = {} }: CreateUser): Promise<User> {
    return this.#link.call(accessRoutes.CreateUserRoute, { body: { name, role, quotas } });
  }

  /** All of them by name, page by page. */
  async *all(): AsyncGenerator<User, void, undefined> {
    let after: string | undefined;
    do {
      const { users, next } = await this.#link.call(accessRoutes.ListUsers, { query: { after, limit: PAGE } });
      yield* users;
      after = next;
    } while (after !== undefined);
  }

  get(user: string): Promise<User> {
    return this.#link.call(accessRoutes.GetUser, { params: { user } });
  }

  /** `quotas` take the place of those before. */
  update(user: string, change: UpdateUser): Promise<User> {
    return this.#link.call(accessRoutes.UpdateUserRoute, { params: { user }, body: change });
  }

  /** With its tokens, logins and sessions. */
  async delete(user: string): Promise<void> {
    await this.#link.call(accessRoutes.DeleteUser, { params: { user } });
  }

  /** Ends all browser logins, and unused login links, of oneself; for administrators also those of another user. */
  async logout(user: string): Promise<void> {
    await this.#link.call(accessRoutes.EndLogins, { params: { user } });
  }

  /** A one-time code for a browser to log in with: one's own, or for administrators that of another user. */
  loginCode(user?: string): Promise<LoginCode> {
    return this.#link.call(accessRoutes.CreateLoginCode, { body: user === undefined ? {} : { user } });
  }
}

export interface LoginCode {
  readonly code: string;
  /** To be put behind the address of the server. */
  readonly path: string;
  readonly expiresAt: number;
}
