/** Tokens at a server: one's own, or for administrators those of anybody. */

import type { CreateToken, TokenInfo } from '../protocol/access-models.ts';
import * as accessRoutes from '../protocol/api/access-routes.ts';
import type { Link } from './link.ts';

export class Tokens {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** `token` is the secret, and nobody can read it again. */
  create(token: CreateToken): Promise<{ readonly token: string; readonly info: TokenInfo }> {
    return this.#link.call(accessRoutes.CreateTokenRoute, { body: token });
  }

  /** In the order in which they were made. */
  async list({ user }: { readonly user?: string | undefined } = {}): Promise<readonly TokenInfo[]> {
    return (await this.#link.call(accessRoutes.ListTokens, { query: { user } })).tokens;
  }

  /** From the next call on, nobody gets in with it. */
  async revoke(id: string): Promise<void> {
    await this.#link.call(accessRoutes.RevokeToken, { params: { token: id } });
  }
}
