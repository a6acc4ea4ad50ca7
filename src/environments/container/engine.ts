/** Finds the container engine, calls it with timeouts, and converts its errors. */

import { statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';
import { raceAbort } from '../../lib/abort.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { firstProblem } from '../../protocol/parse.ts';

export interface Engine extends EngineIdentity {
  readonly docker: Docker;
  /** For example `unix:///run/docker.sock`. */
  readonly address: string;
  /** Whether the engine runs without root. Ids inside its containers then differ from those on the machine. */
  readonly rootless: boolean;
}

interface EngineCallOptions {
  /** The image that a 404 refers to. */
  readonly image?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** The image that `cella images build` makes. */
export const DEFAULT_IMAGE = 'cella-python:local';

const CONNECT_TIMEOUT_MS = 15_000;
const CALL_TIMEOUT_MS = 30_000;

/** `address` is the option or DOCKER_HOST. Without it, tries the usual sockets, and the user's own in `runtimeDir`. */
export async function connectEngine(address?: string, runtimeDir?: string): Promise<Engine> {
  return address === undefined ? await findEngine(usualSockets(runtimeDir)) : await connectTo(socketOf(address));
}

/** Returns the first engine that answers. */
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

/** Makes one call to the engine with a timeout. Errors name the attempted operation. */
export async function callEngine<T>(
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

/** Like `call`, but validates the answer: any program could be listening on the socket. */
export async function askEngine<T>(
  engine: Pick<Engine, 'address'>,
  what: string,
  answer: z.ZodType<T>,
  work: (signal: AbortSignal) => Promise<unknown>,
  options?: EngineCallOptions,
): Promise<T> {
  const parsed = answer.safeParse(await callEngine(engine, what, work, options));
  if (parsed.success) return parsed.data;
  const message = `The container engine at ${engine.address} sent an invalid answer: ${what} (${firstProblem(parsed.error)}).`;
  throw new CellaError('CONTAINER_FAILED', message, { cause: parsed.error, details: { address: engine.address } });
}

async function connectTo(socket: string): Promise<Engine> {
  const address = `unix://${socket}`;
  const { default: Client } = await import('dockerode');
  // Keeps the client from reading these settings from the environment.
  const nothing = { host: undefined, port: undefined, ca: undefined, cert: undefined, key: undefined };
  const settings = { ...nothing, socketPath: socket, protocol: 'http', timeout: undefined } as const;
  const hello = async (signal: AbortSignal) => {
    // Created inside the `try`: the client still reads DOCKER_HOST, and throws if it cannot parse it.
    const docker = new Client(settings);
    return { docker, called: await identifyEngine(docker, signal) };
  };
  const { docker, called } = await callEngine({ address }, 'asking for its version', hello, {
    timeoutMs: CONNECT_TIMEOUT_MS,
  });
  // The user who runs the engine owns its socket.
  if (called) return { docker, address, ...called, rootless: statSync(socket).uid !== 0 };
  throw new CellaError('ENGINE_UNREACHABLE', `The program that listens at ${address} is not a container engine.`);
}

/** Only local engines work, because containers mount folders of this machine. */
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
    return false; // missing or not accessible: unusable either way
  }
}

interface FailedCall {
  readonly address: string;
  /** The operation, for example `starting a container`. */
  readonly what: string;
  readonly image?: string | undefined;
}

const EngineReply = z.object({ statusCode: z.int(), json: z.unknown().optional() });
const EngineMessage = z.object({ message: z.string() });

const NOT_FOR_US = 'this user has no permission: join the group of the socket, or start a rootless engine';

const connectionProblems: Readonly<Record<string, string>> = {
  ENOENT: 'there is no socket',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it closed the connection',
  EPIPE: 'it closed the connection',
  EACCES: NOT_FOR_US,
  EPERM: NOT_FOR_US,
  ENOTSOCK: 'that is not a socket',
};

function engineError(error: unknown, { address, what, image }: FailedCall): CellaError {
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

function imageNotFound(image: string, cause?: unknown): CellaError {
  const way = image === DEFAULT_IMAGE ? '`cella images build` makes it' : `\`docker pull ${image}\` fetches it`;
  const message = `There is no image ${image} on this machine: ${way}. Cella pulls no images.`;
  return new CellaError('IMAGE_NOT_FOUND', message, { cause, details: { image } });
}

/** The error's message, on one line. */
export function reasonOf(error: unknown): string {
  const problem = connectionProblem(error);
  if (problem !== undefined) return problem;
  const reported = EngineMessage.safeParse(EngineReply.safeParse(error).data?.json).data?.message;
  const text = reported ?? messageOf(error);
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '').slice(0, 1000);
}

/** Describes an error for which no answer arrived, as opposed to an answer that reports a failure. */
function connectionProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  return connectionProblems[error.code];
}

/** Whether asking again is pointless. */
export function isNotFound(error: unknown): boolean {
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

/** Undefined if the server is not a container engine. */
async function identifyEngine(docker: Docker, signal: AbortSignal): Promise<EngineIdentity | undefined> {
  // Podman looks up its packages before it reports its version, which takes seconds on a busy machine.
  const called = /^(Docker|Libpod)\/([^\s()]+)/.exec(await serverOf(docker, signal));
  if (called?.[2]) return { name: called[1] === 'Libpod' ? 'podman' : 'docker', version: called[2] };
  // A proxy with its own Server header may stand in front of the engine.
  const version = Version.safeParse(await docker.version()).data;
  const podman = version?.Components.some(({ Name }) => /podman/i.test(Name));
  return version && { name: podman ? 'podman' : 'docker', version: version.Version };
}

/** For example `Docker/20.10.24 (linux)`. */
async function serverOf({ modem }: Docker, abortSignal: AbortSignal): Promise<string> {
  const dialed = Promise.withResolvers<unknown>();
  const request = { path: '/_ping', method: 'GET', isStream: true, statusCodes: { 200: true }, abortSignal };
  modem.dial(request, (error: unknown, answer: unknown) => (error ? dialed.reject(error) : dialed.resolve(answer)));
  const answer = await dialed.promise;
  if (answer instanceof Readable) answer.resume();
  return PingReply.safeParse(answer).data?.headers.server ?? '';
}

/** Splits `name` or `name:tag` as an engine accepts them, in lower case. The default tag is `local`. */
export function splitName(name: string): { repo: string; tag: string } | undefined {
  const match = /^([a-z0-9][a-z0-9._/-]{0,200})(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?$/.exec(name);
  return match?.[1] === undefined ? undefined : { repo: match[1], tag: match[2] ?? 'local' };
}
