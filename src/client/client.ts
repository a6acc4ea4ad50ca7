/** Connects to a server. The client gives access to sessions, namespaces, users, tokens and the server itself. */

import type { z } from 'zod';
import type { Me } from '../protocol/api/access-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { KernelInfo } from '../protocol/kernel-state.ts';
import type { ArtifactsApi, DepsApi, SkillsApi, ToolCatalogApi, UserNamespacesApi } from '../session/api.ts';
import { ApiClient } from './api-client.ts';
import { ClientSession, type UseOptions } from './client-session.ts';
import { RemoteArtifacts, RemoteDeps, RemoteSkills, RemoteTools } from './remote-namespaces.ts';
import {
  CheckpointsResource,
  CredentialsResource,
  PermissionRulesResource,
  ProfilesResource,
  ServerResource,
  type SessionRequest,
  SessionsResource,
  TokensResource,
  UsersResource,
} from './resources.ts';
import { IDLE_TIMEOUT_MS, MonitoredTransport, type Transport, WebTransport } from './transport.ts';

/** The user behind this client's token or login. */
export type Identity = Omit<z.infer<typeof Me>, 'csrf'>;

export class Client implements UserNamespacesApi, AsyncDisposable {
  readonly me: Identity;
  readonly sessions: SessionsResource;
  readonly users: UsersResource;
  readonly tokens: TokensResource;
  readonly credentials: CredentialsResource;
  readonly permissionRules: PermissionRulesResource;
  readonly profiles: ProfilesResource;
  readonly tools: ToolCatalogApi;
  readonly skills: SkillsApi;
  readonly artifacts: ArtifactsApi;
  readonly deps: DepsApi;
  readonly checkpoints: CheckpointsResource;
  readonly server: ServerResource;
  readonly #api: ApiClient;
  readonly #resumeMs: number;

  constructor(api: ApiClient, me: Identity, resumeMs: number) {
    this.me = me;
    this.sessions = new SessionsResource(api);
    this.users = new UsersResource(api);
    this.tokens = new TokensResource(api);
    this.credentials = new CredentialsResource(api);
    this.permissionRules = new PermissionRulesResource(api);
    this.profiles = new ProfilesResource(api);
    this.tools = new RemoteTools(api);
    this.skills = new RemoteSkills(api);
    this.artifacts = new RemoteArtifacts(api);
    this.deps = new RemoteDeps(api);
    this.checkpoints = new CheckpointsResource(api);
    this.server = new ServerResource(api);
    this.#api = api;
    this.#resumeMs = resumeMs;
  }

  /** The session with this id. Throws `NOT_FOUND` if there is none that you may use. */
  async session(id: string, use: UseOptions = {}): Promise<ClientSession> {
    const info = await this.sessions.get(id);
    return await ClientSession.open(this.#api, info, { ...use, resumeMs: this.#resumeMs });
  }

  /** The session of this agent key, created if there is none. */
  async open(request: SessionRequest = {}, use: UseOptions = {}): Promise<ClientSession> {
    const info = await this.sessions.create(request);
    return await ClientSession.open(this.#api, info, { ...use, resumeMs: this.#resumeMs });
  }

  /** Your kernels by agent key, including kernels without a session. */
  async kernels(): Promise<readonly KernelInfo[]> {
    return (await this.#api.call('listKernels')).kernels;
  }

  /** Closes the connections. Sessions stay open at the server. */
  async close(): Promise<void> {
    this.#api.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

interface Resuming {
  /** How long to retry a broken connection. Default: one minute. */
  readonly resumeMs?: number;
  /** How long the server may be silent before the client checks its health. Default: one minute. */
  readonly idleTimeoutMs?: number;
}

export type ConnectOptions = Resuming &
  (
    | {
        /** `http://127.0.0.1:7710` */
        readonly url: string;
        /** Omit it in a page that has logged in. */
        readonly token?: string;
      }
    | {
        /** The path of `daemon.sock` in the data folder of a local server. Not for browsers. */
        readonly socket: string;
      }
  );

const RESUME_MS = 60_000;

/** Throws `SERVER_UNREACHABLE` if no server answers, and `UNAUTHENTICATED` if the token is invalid. */
export async function connect(options: ConnectOptions): Promise<Client> {
  const api = new ApiClient(
    new MonitoredTransport(await transportOf(options), options.idleTimeoutMs ?? IDLE_TIMEOUT_MS),
  );
  try {
    const { csrf, ...me } = await api.call('whoAmI');
    api.csrf = csrf;
    return new Client(api, me, options.resumeMs ?? RESUME_MS);
  } catch (error) {
    api.close();
    throw error;
  }
}

async function transportOf(options: ConnectOptions): Promise<Transport> {
  if ('socket' in options) {
    const { UnixTransport } = await import('./unix-transport.ts');
    return new UnixTransport(options.socket);
  }
  if (URL.canParse(options.url)) return new WebTransport(options.url, options.token);
  const problem = options.url
    ? `The address of the server is not a URL: ${options.url}`
    : 'No address of a server was given.';
  throw new CellaError('INVALID_OPTIONS', problem, {
    advice: 'Use a complete URL, such as http://127.0.0.1:7710.',
  });
}
