/** Connects to a server, and gives what it offers: sessions, users, tokens and the server itself. */

import type { z } from 'zod';
import type { Me } from '../protocol/api/access-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { KernelInfo } from '../protocol/kernel-state.ts';
import type { NamespaceName } from '../protocol/namespace-models.ts';
import { ApiClient } from './api-client.ts';
import { ClientSession, type UseOptions } from './client-session.ts';
import { MonitoredTransport, SILENCE_MS } from './monitored-transport.ts';
import {
  Credentials,
  type Namespaces,
  PermissionRules,
  Profiles,
  readNamespaces,
  Server,
  type SessionRequest,
  Sessions,
  Tokens,
  Users,
} from './resources.ts';
import { type Transport, WebTransport } from './transport.ts';

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
  readonly #link: ApiClient;
  readonly #resumeMs: number;

  constructor(link: ApiClient, me: Identity, resumeMs: number) {
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
  async open(wish: SessionRequest = {}, use: UseOptions = {}): Promise<ClientSession> {
    const info = await this.sessions.create(wish);
    return await ClientSession.open(this.#link, info, { ...use, resumeMs: this.#resumeMs });
  }

  /** Your kernels by agent key, those without a session too. */
  async kernels(): Promise<readonly KernelInfo[]> {
    return (await this.#link.call('listKernels')).kernels;
  }

  /** Your tools, skills, artifacts and packages, or one kind of them, whatever sessions you have. */
  namespaces(only?: NamespaceName): Promise<Namespaces> {
    return readNamespaces(this.#link, only);
  }

  /** Lets connections go; sessions go on at the server. */
  async close(): Promise<void> {
    this.#link.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

interface Resuming {
  /** How long a connection that broke is tried again; a minute by default. */
  readonly resumeMs?: number;
  /** How long the server may be silent before it is asked whether it is there; a minute by default. It has to answer. */
  readonly silenceMs?: number;
}

export type ConnectOptions = Resuming &
  (
    | {
        /** `http://127.0.0.1:7710` */
        readonly url: string;
        /** Left out by a page that has logged in. */
        readonly token?: string;
      }
    | {
        /** The path of `daemon.sock` in the data folder of a server on this machine. Not in browsers. */
        readonly socket: string;
      }
  );

const RESUME_MS = 60_000;

/** `SERVER_UNREACHABLE` where nobody answers, `UNAUTHENTICATED` where the token is no good. */
export async function connect(options: ConnectOptions): Promise<Client> {
  const link = new ApiClient(new MonitoredTransport(await transportOf(options), options.silenceMs ?? SILENCE_MS));
  try {
    const { csrf, ...me } = await link.call('whoAmI');
    link.csrf = csrf;
    return new Client(link, me, options.resumeMs ?? RESUME_MS);
  } catch (error) {
    link.close();
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
    ? `The address of the server is no URL: ${options.url}`
    : 'No address of a server was given.';
  throw new CellaError('INVALID_OPTIONS', problem, {
    advice: 'Write all of it, such as http://127.0.0.1:7710.',
  });
}
