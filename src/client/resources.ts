/** What a user has at a server besides an open session: sessions, users, tokens, credentials, rules, profiles, namespaces. */

import type {
  CreateToken,
  CreateUser,
  CredentialInfo,
  Rotation,
  TokenInfo,
  UpdateUser,
  User,
} from '../protocol/access-models.ts';
import type { AgentProfile, NamedProfile } from '../protocol/agent-profile.ts';
import * as accessRoutes from '../protocol/api/access-routes.ts';
import * as agentRoutes from '../protocol/api/agent-routes.ts';
import { AddRule, DeleteRule, ListRules } from '../protocol/api/agent-routes.ts';
import { ListThings } from '../protocol/api/namespace-routes.ts';
import * as serverRoutes from '../protocol/api/server-routes.ts';
import * as sessionRoutes from '../protocol/api/session-routes.ts';
import type { Provider } from '../protocol/enums.ts';
import type { CellaError } from '../protocol/errors.ts';
import type { ArtifactInfo, ThingKind } from '../protocol/namespace-models.ts';
import type { NewRule, PermissionRule } from '../protocol/permission.ts';
import type { ServerStatus, StopServer } from '../protocol/server-info.ts';
import type { SessionInfo, SessionPage, SessionQuery } from '../protocol/session-info.ts';
import type { SkillInfo, SkillProblem, ToolInfo, ToolProblem } from '../session/api.ts';
import { type ApiClient, allPages, errorFromBody } from './api-client.ts';
import { toSkill, toTool } from './remote-namespaces.ts';

type Body<E> = E extends { readonly body: { readonly _zod: { readonly output: infer B } } } ? B : never;
/** What `POST /v1/sessions` takes. */
export type SessionWish = NonNullable<Body<typeof sessionRoutes.CreateSession>>;
export type SessionUpdate = Body<typeof sessionRoutes.UpdateSession>;

export interface ListOptions extends Omit<SessionQuery, 'ownerId'> {
  /** The name or id of a user. */
  readonly owner?: string;
}

export class Sessions {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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

const PAGE = 200;

/** Users go by their name or id. */
export class Users {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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

export class Tokens {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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

interface Whose {
  /** Another user, for administrators. */
  readonly user?: string | undefined;
}

export class Credentials {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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

export class PermissionRules {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
    this.#link = link;
  }

  /** Oldest first. */
  async list(): Promise<readonly PermissionRule[]> {
    return (await this.#link.call(ListRules)).rules;
  }

  add(rule: NewRule): Promise<PermissionRule> {
    return this.#link.call(AddRule, { body: rule });
  }

  async delete(id: string): Promise<void> {
    await this.#link.call(DeleteRule, { params: { rule: id } });
  }
}

export class Profiles {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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

export class Server {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
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
    return failure ? { failure: errorFromBody(failure) } : {};
  }
}

export interface Things {
  readonly tools: readonly ToolInfo[];
  readonly toolProblems: readonly ToolProblem[];
  readonly skills: readonly SkillInfo[];
  readonly skillProblems: readonly SkillProblem[];
  readonly artifacts: readonly ArtifactInfo[];
  readonly deps: readonly string[];
}

/** The lists of other kinds are empty where `only` one is asked for. */
export async function readThings(link: ApiClient, only?: ThingKind): Promise<Things> {
  const { tools, skills, skillProblems, artifacts, next, ...others } = await link.call(ListThings, { query: { only } });
  /** What the first answer has left out of a kind. */
  const rest = async <K extends 'tools' | 'skills' | 'artifacts'>(kind: K) => {
    const from = next?.[kind];
    if (from === undefined) return [];
    return await allPages(async (after = from) => {
      const page = await link.call(ListThings, { query: { only: kind, after } });
      return { items: page[kind] as readonly (typeof page)[K][number][], next: page.next?.[kind] };
    });
  };
  return {
    ...others,
    tools: [...tools, ...(await rest('tools'))].map(toTool),
    skills: [...skills, ...(await rest('skills'))].map(toSkill),
    artifacts: [...artifacts, ...(await rest('artifacts'))],
    skillProblems: skillProblems.map(({ line, ...problem }) => ({ ...problem, line })),
  };
}
