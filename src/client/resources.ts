/** What a client manages at a server: sessions, users, tokens, checkpoints, credentials, rules, profiles. */

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
import type { Checkpoint } from '../protocol/kernel-state.ts';
import type { NewRule, PermissionRule } from '../protocol/permission.ts';
import type { ServerStatus, StopServer } from '../protocol/server-info.ts';
import type { SessionInfo, SessionPage, SessionQuery } from '../protocol/session-info.ts';
import { type ApiClient, allPages, errorFromBody } from './api-client.ts';

/** The body of `POST /v1/sessions`. */
export type SessionRequest = NonNullable<z.input<Routes['createSession']['body']>>;
export type SessionUpdate = z.input<Routes['updateSession']['body']>;

export interface ListOptions extends Omit<SessionQuery, 'ownerId'> {
  /** The name or id of a user. */
  readonly owner?: string;
}

/** Part of a client: calls the routes of one kind of object. */
abstract class Resource {
  protected readonly api: ApiClient;

  constructor(api: ApiClient) {
    this.api = api;
  }
}

export class SessionsResource extends Resource {
  /** Returns the existing session of this agent key if its options are the same. */
  create(request: SessionRequest = {}): Promise<SessionInfo> {
    return this.api.call('createSession', { body: request });
  }

  /** One page, oldest first. Pass `next` as the `cursor` of the next page. */
  list({ labels = {}, ...options }: ListOptions = {}): Promise<SessionPage> {
    const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    return this.api.call('listSessions', { query: { ...options, label } });
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
    return this.api.call('getSession', { params: { id } });
  }

  update(id: string, change: SessionUpdate): Promise<SessionInfo> {
    return this.api.call('updateSession', { params: { id }, body: change });
  }

  /** Confirms a fork of another user's session, so that its code may act for you. Only the fork's owner can do so. */
  confirm(id: string): Promise<SessionInfo> {
    return this.api.call('confirmFork', { params: { id } });
  }

  /** Deletes the session with its kernel, workspace, events and checkpoints. */
  async delete(id: string): Promise<void> {
    await this.api.call('deleteSession', { params: { id } });
  }
}

const PAGE = 200;

/** Methods take a user's name or id. */
export class UsersResource extends Resource {
  /** Throws `USER_EXISTS` if the name is taken. */
  create(user: CreateUser): Promise<User> {
    return this.api.call('createUser', { body: user });
  }

  /** All users, sorted by name. Fetches page by page. */
  async *all(): AsyncGenerator<User, void, undefined> {
    let after: string | undefined;
    do {
      const { users, next } = await this.api.call('listUsers', { query: { after, limit: PAGE } });
      yield* users;
      after = next;
    } while (after !== undefined);
  }

  get(user: string): Promise<User> {
    return this.api.call('getUser', { params: { user } });
  }

  /** `quotas` replace the previous quotas. */
  update(user: string, change: UpdateUser): Promise<User> {
    return this.api.call('updateUser', { params: { user }, body: change });
  }

  /** Deletes the user with all tokens, logins and sessions. */
  async delete(user: string): Promise<void> {
    await this.api.call('deleteUser', { params: { user } });
  }

  /** Ends all browser logins and unused login links of yourself, or of any user if you are an administrator. */
  async logout(user: string): Promise<void> {
    await this.api.call('endLogins', { params: { user } });
  }

  /** Creates a one-time code for a browser login, for yourself, or for any user if you are an administrator. */
  loginCode(user?: string): Promise<LoginCode> {
    return this.api.call('createLoginCode', { body: user === undefined ? {} : { user } });
  }
}

export interface LoginCode {
  readonly code: string;
  /** Append it to the server's address. */
  readonly path: string;
  readonly expiresAt: number;
}

export class TokensResource extends Resource {
  /** `token` is the secret. It cannot be read again. */
  create(token: CreateToken): Promise<{ readonly token: string; readonly info: TokenInfo }> {
    return this.api.call('createToken', { body: token });
  }

  /** Oldest first. */
  async list({ user }: { readonly user?: string | undefined } = {}): Promise<readonly TokenInfo[]> {
    return (await this.api.call('listTokens', { query: { user } })).tokens;
  }

  /** The token stops working immediately. */
  async revoke(id: string): Promise<void> {
    await this.api.call('revokeToken', { params: { token: id } });
  }
}

/** Page size. Large, because the server reads the metadata of all checkpoints for each page. */
export const CHECKPOINTS_AT_ONCE = 1000;

/** Durable checkpoints by agent key. They exist without a session or a kernel. */
export class CheckpointsResource extends Resource {
  /** Oldest first, without live checkpoints: only a session has those. */
  async list(agentKey: string): Promise<readonly Checkpoint[]> {
    return await allPages(async (after) => {
      const query = { after, limit: CHECKPOINTS_AT_ONCE };
      const page = await this.api.call('listKernelCheckpoints', { params: { key: agentKey }, query });
      return { items: page.checkpoints, next: page.next };
    });
  }

  /** By id or name; the newest if several share the name. Throws `CHECKPOINT_NOT_FOUND` if there is none. */
  get(agentKey: string, checkpoint: string): Promise<Checkpoint> {
    return this.api.call('getKernelCheckpoint', { params: { key: agentKey, checkpoint } });
  }

  async delete(agentKey: string, checkpoint: string): Promise<void> {
    await this.api.call('deleteKernelCheckpoint', { params: { key: agentKey, checkpoint } });
  }
}

interface Whose {
  /** Another user. Only for administrators. */
  readonly user?: string | undefined;
}

export class CredentialsResource extends Resource {
  /** Replaces the previous credential. The value cannot be read again. */
  set(provider: Provider, value: string, { user }: Whose = {}): Promise<CredentialInfo> {
    const body = { value, user };
    return this.api.call('setCredential', { params: { provider }, body });
  }

  /** Lists credentials without their values. */
  async list({ user }: Whose = {}): Promise<readonly CredentialInfo[]> {
    return (await this.api.call('listCredentials', { query: { user } })).credentials;
  }

  async delete(provider: Provider, { user }: Whose = {}): Promise<void> {
    await this.api.call('deleteCredential', { params: { provider }, query: { user } });
  }

  /** Encrypts all credentials anew with another master key. Only for administrators. */
  rotate(): Promise<Rotation> {
    return this.api.call('rotateCredentials');
  }
}

export class PermissionRulesResource extends Resource {
  /** Oldest first. */
  async list(): Promise<readonly PermissionRule[]> {
    return (await this.api.call('listRules')).rules;
  }

  create(rule: NewRule): Promise<PermissionRule> {
    return this.api.call('createRule', { body: rule });
  }

  async delete(id: string): Promise<void> {
    await this.api.call('deleteRule', { params: { rule: id } });
  }
}

export class ProfilesResource extends Resource {
  async list(): Promise<readonly NamedProfile[]> {
    return (await this.api.call('listProfiles')).profiles;
  }

  get(name: string): Promise<NamedProfile> {
    return this.api.call('getProfile', { params: { name } });
  }

  /** Replaces the previous profile completely. */
  set(name: string, profile: AgentProfile): Promise<NamedProfile> {
    return this.api.call('setProfile', { params: { name }, body: profile });
  }

  async delete(name: string): Promise<void> {
    await this.api.call('deleteProfile', { params: { name } });
  }
}

export class ServerResource extends Resource {
  status(): Promise<ServerStatus> {
    return this.api.call('getServer');
  }

  /** Resolves when the server has begun to stop. Pass the `pid` of `status`, so that no other server stops by mistake. */
  async stop(wanted: StopServer): Promise<void> {
    await this.api.call('stopServer', { body: wanted });
  }

  /** Resolves when the server has saved everything, or with the failure. Call it before `stop` to miss nothing. */
  async end(): Promise<{ readonly failure?: CellaError }> {
    const { failure } = await this.api.call('getServerEnd');
    return failure ? { failure: errorFromBody(failure) } : {};
  }
}
