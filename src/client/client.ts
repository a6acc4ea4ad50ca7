/** A server as its clients see it. */

import type { z } from 'zod';
import type { Me } from '../protocol/api/access-routes.ts';
import { ListAgents } from '../protocol/api/session-routes.ts';
import type { ThingKind } from '../protocol/namespace-models.ts';
import type { AgentInfo } from '../session/api.ts';
import { Credentials } from './credentials.ts';
import type { Link } from './link.ts';
import { PermissionRules } from './permission-rules.ts';
import { Profiles } from './profiles.ts';
import { Server } from './server.ts';
import { ClientSession, type UseOptions } from './session.ts';
import { Sessions, type SessionWish } from './sessions.ts';
import { type Things, thingsAt } from './things.ts';
import { Tokens } from './tokens.ts';
import { Users } from './users.ts';

/** Who one is at the server. */
export type Identity = Omit<z.infer<typeof Me>, 'csrf'>;

export class Client implements AsyncDisposable {
  readonly me: Identity;
  readonly sessions: Sessions;
  readonly users: Users;
  readonly tokens: Tokens;
  readonly credentials: Credentials;
  readonly permissionRules: PermissionRules;
  readonly profiles: Profiles;
  readonly server: Server;
  readonly #link: Link;
  readonly #resumeMs: number;

  constructor(link: Link, me: Identity, resumeMs: number) {
    this.me = me;
    this.sessions = new Sessions(link);
    this.users = new Users(link);
    this.tokens = new Tokens(link);
    this.credentials = new Credentials(link);
    this.permissionRules = new PermissionRules(link);
    this.profiles = new Profiles(link);
    this.server = new Server(link);
    this.#link = link;
    this.#resumeMs = resumeMs;
  }

  /** The session with this id; `NOT_FOUND` where there is none, or it is not yours. */
  async session(id: string, use: UseOptions = {}): Promise<ClientSession> {
    const info = await this.sessions.get(id);
    return await ClientSession.open(this.#link, info, { ...use, resumeMs: this.#resumeMs });
  }

  /** The session of this agent key, made where there is none. */
  async open(wish: SessionWish = {}, use: UseOptions = {}): Promise<ClientSession> {
    const info = await this.sessions.create(wish);
    return await ClientSession.open(this.#link, info, { ...use, resumeMs: this.#resumeMs });
  }

  /** Your agents and what is kept of them, those without a session too. */
  async agents(): Promise<readonly AgentInfo[]> {
    return (await this.#link.call(ListAgents)).agents;
  }

  /** Your tools, skills, artifacts and packages, or one kind of them, whatever sessions you have. */
  things(only?: ThingKind): Promise<Things> {
    return thingsAt(this.#link, only);
  }

  /** Lets connections go; sessions go on at the server. */
  async close(): Promise<void> {
    this.#link.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
