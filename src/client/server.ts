/** The server itself, for administrators: how it does, and its end. */

import * as serverRoutes from '../protocol/api/server-routes.ts';
import type { CellaError } from '../protocol/errors.ts';
import type { ServerStatus, StopServer } from '../protocol/server-info.ts';
import { toError } from './failure.ts';
import type { Link } from './link.ts';

export class Server {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  status(): Promise<ServerStatus> {
    return this.#link.call(serverRoutes.GetServer);
  }

  /** Resolves when it has begun to end. `pid` is that of `status`, so that no other server is meant by mistake. */
  async stop(wanted: StopServer): Promise<void> {
    await this.#link.call(serverRoutes.StopServerRoute, { body: wanted });
  }

  /** Resolves when it ends and has saved everything, or with why it could not. Ask before `stop`, to miss nothing. */
  async end(): Promise<{ readonly failure?: CellaError }> {
    const { failure } = await this.#link.call(serverRoutes.GetServerEnd);
    return failure ? { failure: toError(failure) } : {};
  }
}
