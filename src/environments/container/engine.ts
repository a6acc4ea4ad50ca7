/** The container engine: finding it, calling it with a timeout, and turning its errors into ours. */

import { statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { raceAbort } from '../../lib/abort.ts';
import { CellaError } from '../../protocol/errors.ts';
import { DEFAULT_IMAGE } from './image-names.ts';

export interface Engine extends EngineIdentity {
  readonly docker: Docker;
  /** `unix:///run/docker.sock`. */
  readonly address: string;
  /** Whether it is a user's own, without root's rights: ids inside are then not those of the machine. */
  readonly rootless: boolean;
}

export interface EngineCallOptions {
  /** The image that a 404 speaks of. */
  readonly image?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const CONNECT_TIMEOUT_MS = 15_000;
const CALL_TIMEOUT_MS = 30_000;

/** `address` is the option or DOCKER_HOST; without one the usual sockets are tried, those of a user in `runtimeDir`. */
export async function connectEngine(address?: string, runtimeDir?: string): Promise<Engine> {
  return address === undefined ? await findEngine(usualSockets(runtimeDir)) : await connectTo(socketOf(address));
}

/** The first that answers. */
export async function findEngine(sockets: readonly string[]): Promise<Engine> {
  const tried: string[] = [];
  for (const socket of sockets) {
    try {
      if (isSocket(socket)) return await connectTo(socket);
      tried.push(`${socket} (not there)`);
    } catch (error) {
      tried.push(`${socket} (${reasonOf(error)})`);
    }
  }
  const message = `No container engine was found: tried ${tried.join(', ')}.`;
  throw new CellaError('ENGINE_UNREACHABLE', message, { details: { tried } });
}

/** One call to the engine: bounded in time, and with an error that says what was wanted. */
export async function call<T>(
  { address }: Pick<Engine, 'address'>,
  what: string,
  work: (signal: AbortSignal) => Promise<T>,
  { image, timeoutMs = CALL_TIMEOUT_MS, signal }: EngineCallOptions = {},
): Promise<T> {
  signal?.throwIfAborted();
  const deadline = AbortSignal.timeout(timeoutMs);
  const stop = signal ? AbortSignal.any([signal, deadline]) : deadline;
  try {
    return await raceAbort(work(stop), stop, () => stop.reason);
  } catch (cause) {
    signal?.throwIfAborted();
    if (deadline.aborted) {
      const message = `The container engine at ${address} did not answer within ${timeoutMs / 1000} s: ${what}.`;
      throw new CellaError('ENGINE_UNREACHABLE', message, { cause });
    }
    throw engineError(cause, { address, what, image });
  }
}

/** The same where the answer is looked at: whatever speaks at the socket may say anything. */
export async function ask<T>(
  engine: Pick<Engine, 'address'>,
  what: string,
  answer: z.ZodType<T>,
  work: (signal: AbortSignal) => Promise<unknown>,
  options?: EngineCallOptions,
): Promise<T> {
  const told = answer.safeParse(await call(engine, what, work, options));
  if (told.success) return told.data;
  const [issue] = told.error.issues;
  const where = issue?.path.map(String).join('.') || 'it';
  const message = `The container engine at ${engine.address} answered what cannot be understood: ${what} (${where}: ${issue?.message}).`;
  throw new CellaError('CONTAINER_FAILED', message, { cause: told.error, details: { address: engine.address } });
}

async function connectTo(socket: string): Promise<Engine> {
  const address = `unix://${socket}`;
  const { default: Client } = await import('dockerode');
  // What the client would take from the environment by itself is taken away from it.
  const nothing = { host: undefined, port: undefined, ca: undefined, cert: undefined, key: undefined };
  const settings = { ...nothing, socketPath: socket, protocol: 'http', timeout: undefined } as const;
  const hello = async (signal: AbortSignal) => {
    // Made in here, since it still looks at DOCKER_HOST and refuses what it cannot read.
    const docker = new Client(settings);
    return { docker, called: await identifyEngine(docker, signal) };
  };
  const { docker, called } = await call({ address }, 'asking who it is', hello, { timeoutMs: CONNECT_TIMEOUT_MS });
  // Whoever runs an engine has made its socket.
  if (called) return { docker, address, ...called, rootless: statSync(socket).uid !== 0 };
  throw new CellaError('ENGINE_UNREACHABLE', `What listens at ${address} is no container engine.`);
}

/** Folders of this machine are mounted into containers, so that an engine elsewhere is of no use. */
function socketOf(address: string): string {
  const path = address.startsWith('unix://') ? address.slice('unix://'.length) : address;
  if (isAbsolute(path) && !path.includes('\0')) return path;
  const scheme = /^([a-z]+):\/\//.exec(address)?.[1];
  const what = scheme ? `An engine behind ${scheme}:// cannot be used` : `${JSON.stringify(address)} is no address`;
  const why = 'containers mount folders of this machine, so it must be a Unix socket here';
  throw new CellaError('ENGINE_UNREACHABLE', `${what}: ${why}, such as unix:///run/docker.sock.`);
}

export function usualSockets(runtimeDir: string | undefined): string[] {
  const own = runtimeDir ?? `/run/user/${process.getuid?.() ?? 0}`;
  return [
    '/var/run/docker.sock',
    '/run/docker.sock',
    join(own, 'docker.sock'),
    '/run/podman/podman.sock',
    join(own, 'podman', 'podman.sock'),
  ];
}

function isSocket(path: string): boolean {
  try {
    return statSync(path).isSocket();
  } catch {
    return false; // not there, or not to be seen: of no use either way
  }
}

interface FailedCall {
  readonly address: string;
  /** What was wanted: `starting a container`. */
  readonly what: string;
  readonly image?: string | undefined;
}

const EngineReply = z.object({ statusCode: z.int(), json: z.unknown().optional() });
const EngineMessage = z.object({ message: z.string() });

const NOT_FOR_US = 'this user may not use it: join the group of the socket, or start an engine without root';

const connectionProblems: Readonly<Record<string, string>> = {
  ENOENT: 'there is no socket',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it broke the connection off',
  EPIPE: 'it broke the connection off',
  EACCES: NOT_FOR_US,
  EPERM: NOT_FOR_US,
  ENOTSOCK: 'that is no socket',
};

export function engineError(error: unknown, { address, what, image }: FailedCall): CellaError {
  if (error instanceof CellaError) return error;
  const problem = connectionProblem(error);
  if (problem !== undefined) {
    const message = `The container engine at ${address} cannot be reached (${problem}): ${what}.`;
    return new CellaError('ENGINE_UNREACHABLE', message, { cause: error, details: { address } });
  }
  const words = reasonOf(error);
  const status = EngineReply.safeParse(error).data?.statusCode;
  if (status === 404 && image !== undefined && /image/i.test(words)) return imageNotFound(image, error);
  return new CellaError('CONTAINER_FAILED', `The container engine failed at ${what}: ${words}.`, {
    cause: error,
    details: { address, status },
  });
}

export function imageNotFound(image: string, cause?: unknown): CellaError {
  const way = image === DEFAULT_IMAGE ? '`cella images build` makes it' : `\`docker pull ${image}\` fetches it`;
  const message = `There is no image ${image} on this machine: ${way}. Nothing is pulled by itself.`;
  return new CellaError('IMAGE_NOT_FOUND', message, { cause, details: { image } });
}

/** The message of an error, in one line. */
export function reasonOf(error: unknown): string {
  const problem = connectionProblem(error);
  if (problem !== undefined) return problem;
  const told = EngineMessage.safeParse(EngineReply.safeParse(error).data?.json).data?.message;
  const text = told ?? (error instanceof Error ? error.message : String(error));
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '').slice(0, 1000);
}

/** An answer that never came, as opposed to one that says no. */
function connectionProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  return connectionProblems[error.code];
}

/** Whether asking again has no use. */
export function isGone(error: unknown): boolean {
  return EngineReply.safeParse(error).data?.statusCode === 404;
}

export interface EngineIdentity {
  readonly name: 'docker' | 'podman';
  readonly version: string;
}

const PingReply = z.object({ headers: z.object({ server: z.string().optional() }) });
const Version = z.object({
  Version: z.string(),
  Components: z.array(z.object({ Name: z.string() })).default([]),
});

/** Undefined where it is no engine. */
export async function identifyEngine(docker: Docker, signal: AbortSignal): Promise<EngineIdentity | undefined> {
  // Podman looks its packages up before it tells its version, which takes seconds on a machine that is busy.
  const called = /^(Docker|Libpod)\/([^\s()]+)/.exec(await serverOf(docker, signal));
  if (called?.[2]) return { name: called[1] === 'Libpod' ? 'podman' : 'docker', version: called[2] };
  // It may stand behind something that speaks in its own name.
  const told = Version.safeParse(await docker.version()).data;
  const podman = told?.Components.some(({ Name }) => /podman/i.test(Name));
  return told && { name: podman ? 'podman' : 'docker', version: told.Version };
}

/** `Docker/20.10.24 (linux)`. */
async function serverOf({ modem }: Docker, abortSignal: AbortSignal): Promise<string> {
  const told = Promise.withResolvers<unknown>();
  const request = { path: '/_ping', method: 'GET', isStream: true, statusCodes: { 200: true }, abortSignal };
  modem.dial(request, (error: unknown, answer: unknown) => (error ? told.reject(error) : told.resolve(answer)));
  const answer = await told.promise;
  if (answer instanceof Readable) answer.resume();
  return PingReply.safeParse(answer).data?.headers.server ?? '';
}
