/** Keys of model providers at a server: one's own, or for administrators those of anybody. */

import type { CredentialInfo, Rotation } from '../protocol/access-models.ts';
import * as accessRoutes from '../protocol/api/access-routes.ts';
import type { Provider } from '../protocol/enums.ts';
import type { Link } from './link.ts';

interface Whose {
  /** Another user, for administrators. */
  readonly user?: string | undefined;
}

export class Credentials {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** It takes the place of the one before, and nobody can read it again. */
  set(provider: Provider, value: string, { user }: Whose = {}): Promise<CredentialInfo> {
    const body = { value, ...(user === undefined ? {} : { user }) };
    return this.#link.call(accessRoutes.SetCredentialRoute, { params: { provider }, body });
  }

  /** Which there are; nothing of their values. */
  async list({ user }: Whose = {}): Promise<readonly CredentialInfo[]> {
    return (await this.#link.call(accessRoutes.ListCredentials, { query: { user } })).credentials;
  }

  async delete(provider: Provider, { user }: Whose = {}): Promise<void> {
    await this.#link.call(accessRoutes.DeleteCredential, { params: { provider }, query: { user } });
  }

  /** For administrators: encrypts all anew, under another master key. */
  rotate(): Promise<Rotation> {
    return this.#link.call(accessRoutes.RotateCredentials);
  }
}
