/** What a user has at a server besides an open session: sessions, users, tokens, credentials, rules, profiles, namespaces. */

import type { z } from 'zod';
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
import type { Routes } from '../protocol/api/routes.ts';
import type { Provider } from '../protocol/enums.ts';
import type { CellaError } from '../protocol/errors.ts';
import type { ArtifactInfo, NamespaceName } from '../protocol/namespace-models.ts';
import type { NewRule, PermissionRule } from '../protocol/permission.ts';
import type { ServerStatus, StopServer } from '../protocol/server-info.ts';
import type { SessionInfo, SessionPage, SessionQuery } from '../protocol/session-info.ts';
import type { SkillInfo, SkillProblem, ToolInfo, ToolProblem } from '../session/api.ts';
import { type ApiClient, allPages, errorFromBody } from './api-client.ts';
import { toSkill, toTool } from './remote-namespaces.ts';

/** What `POST /v1/sessions` takes. */
export type SessionRequest = NonNullable<z.input<Routes['createSession']['body']>>;
export type SessionUpdate = z.input<Routes['updateSession']['body']>;

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
  create(wish: SessionRequest = {}): Promise<SessionInfo> {
    return this.#link.call('createSession', { body: wish });
  }

  /** One page, oldest first; `next` is the `cursor` of the one after it. */
  list({ labels = {}, ...options }: ListOptions = {}): Promise<SessionPage> {
    const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    return this.#link.call('listSessions', { query: { ...options, label } });
  }

  /** All of them, page by page. */
  async *all(options: Omit<ListOptions, 'cursor'> = {}): AsyncGenerator<SessionInfo, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.list({ ...options, cursor });
      yield* page.sessions;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  get(id: string): Promise<SessionInfo> {
    return this.#link.call('getSession', { params: { id } });
  }

  update(id: string, change: SessionUpdate): Promise<SessionInfo> {
    return this.#link.call('updateSession', { params: { id }, body: change });
  }

  /** Confirms a fork of another user's session, so that its code may use what is yours. For its owner. */
  confirm(id: string): Promise<SessionInfo> {
    return this.#link.call('confirmFork', { params: { id } });
  }

  /** With all that it has: kernel, workspace, events, checkpoints. */
  async delete(id: string): Promise<void> {
    await this.#link.call('deleteSession', { params: { id } });
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
  create(user: CreateUser): Promise<User> {
    return this.#link.call('createUser', { body: user });
  }

  /** All of them by name, page by page. */
  async *all(): AsyncGenerator<User, void, undefined> {
    let after: string | undefined;
    do {
      const { users, next } = await this.#link.call('listUsers', { query: { after, limit: PAGE } });
      yield* users;
      after = next;
    } while (after !== undefined);
  }

  get(user: string): Promise<User> {
    return this.#link.call('getUser', { params: { user } });
  }

  /** `quotas` take the place of those before. */
  update(user: string, change: UpdateUser): Promise<User> {
    return this.#link.call('updateUser', { params: { user }, body: change });
  }

  /** With its tokens, logins and sessions. */
  async delete(user: string): Promise<void> {
    await this.#link.call('deleteUser', { params: { user } });
  }

  /** Ends all browser logins, and unused login links, of oneself; for administrators also those of another user. */
  async logout(user: string): Promise<void> {
    await this.#link.call('endLogins', { params: { user } });
  }

  /** A one-time code for a browser to log in with: one's own, or for administrators that of another user. */
  loginCode(user?: string): Promise<LoginCode> {
    return this.#link.call('createLoginCode', { body: user === undefined ? {} : { user } });
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
    return this.#link.call('createToken', { body: token });
  }

  /** In the order in which they were made. */
  async list({ user }: { readonly user?: string | undefined } = {}): Promise<readonly TokenInfo[]> {
    return (await this.#link.call('listTokens', { query: { user } })).tokens;
  }

  /** From the next call on, nobody gets in with it. */
  async revoke(id: string): Promise<void> {
    await this.#link.call('revokeToken', { params: { token: id } });
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
    const body = { value, user };
    return this.#link.call('setCredential', { params: { provider }, body });
  }

  /** Which there are; nothing of their values. */
  async list({ user }: Whose = {}): Promise<readonly CredentialInfo[]> {
    return (await this.#link.call('listCredentials', { query: { user } })).credentials;
  }

  async delete(provider: Provider, { user }: Whose = {}): Promise<void> {
    await this.#link.call('deleteCredential', { params: { provider }, query: { user } });
  }

  /** For administrators: encrypts all anew, under another master key. */
  rotate(): Promise<Rotation> {
    return this.#link.call('rotateCredentials');
  }
}

export class PermissionRules {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
    this.#link = link;
  }

  /** Oldest first. */
  async list(): Promise<readonly PermissionRule[]> {
    return (await this.#link.call('listRules')).rules;
  }

  add(rule: NewRule): Promise<PermissionRule> {
    return this.#link.call('addRule', { body: rule });
  }

  async delete(id: string): Promise<void> {
    await this.#link.call('deleteRule', { params: { rule: id } });
  }
}

export class Profiles {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
    this.#link = link;
  }

  async list(): Promise<readonly NamedProfile[]> {
    return (await this.#link.call('listProfiles')).profiles;
  }

  get(name: string): Promise<NamedProfile> {
    return this.#link.call('getProfile', { params: { name } });
  }

  /** It takes the place of the one before, whole. */
  set(name: string, profile: AgentProfile): Promise<NamedProfile> {
    return this.#link.call('putProfile', { params: { name }, body: profile });
  }

  async delete(name: string): Promise<void> {
    await this.#link.call('deleteProfile', { params: { name } });
  }
}

export class Server {
  readonly #link: ApiClient;

  constructor(link: ApiClient) {
    this.#link = link;
  }

  status(): Promise<ServerStatus> {
    return this.#link.call('getServer');
  }

  /** Resolves when it has begun to end. `pid` is that of `status`, so that no other server is meant by mistake. */
  async stop(wanted: StopServer): Promise<void> {
    await this.#link.call('stopServer', { body: wanted });
  }

  /** Resolves when it ends and has saved everything, or with why it could not. Ask before `stop`, to miss nothing. */
  async end(): Promise<{ readonly failure?: CellaError }> {
    const { failure } = await this.#link.call('getServerEnd');
    return failure ? { failure: errorFromBody(failure) } : {};
  }
}

export interface Namespaces {
  readonly tools: readonly ToolInfo[];
  readonly toolProblems: readonly ToolProblem[];
  readonly skills: readonly SkillInfo[];
  readonly skillProblems: readonly SkillProblem[];
  readonly artifacts: readonly ArtifactInfo[];
  readonly deps: readonly string[];
}

/** The lists of other kinds are empty where `only` one is asked for. */
export async function readNamespaces(link: ApiClient, only?: NamespaceName): Promise<Namespaces> {
  const { tools, skills, skillProblems, artifacts, next, ...others } = await link.call('listNamespaces', {
    query: { only },
  });
  /** What the first answer has left out of a kind. */
  const rest = async <K extends 'tools' | 'skills' | 'artifacts'>(kind: K) => {
    const from = next?.[kind];
    if (from === undefined) return [];
    return await allPages(async (after = from) => {
      const page = await link.call('listNamespaces', { query: { only: kind, after } });
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
