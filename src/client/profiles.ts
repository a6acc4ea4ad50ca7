/** What one has set up for coding agents at a server, by name. */

import type { AgentProfile, NamedProfile } from '../protocol/agent-profile.ts';
import * as agentRoutes from '../protocol/api/agent-routes.ts';
import type { Link } from './link.ts';

export class Profiles {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  async list(): Promise<readonly NamedProfile[]> {
    return (await this.#link.call(agentRoutes.ListProfiles)).profiles;
  }

  get(name: string): Promise<NamedProfile> {
    return this.#link.call(agentRoutes.GetProfile, { params: { name } });
  }

  /** It takes the place of the one before, whole. */
  set(name: string, profile: AgentProfile): Promise<NamedProfile> {
    return this.#link.call(agentRoutes.PutProfile, { params: { name }, body: profile });
  }

  async delete(name: string): Promise<void> {
    await this.#link.call(agentRoutes.DeleteProfile, { params: { name } });
  }
}
