/** The container engine of this machine: Docker or Podman, found and spoken to through one client. */

import { statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type Docker from 'dockerode';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { engineError, reasonOf } from './engine-error.ts';

export interface Engine {
  readonly docker: Docker;
  /** `unix:///run/docker.sock`. */
  readonly address: string;
  readonly name: 'docker' | 'podman';
  readonly version: string;
}

export interface CallOptions {
  /** The image that a 404 speaks of. */
  readonly image?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const HELLO_MS = 15_000;
const CALL_MS = 30_000;

const Version = z.object({
  Version: z.string(),
  Components: z.array(z.object({ Name: z.string() })).default([]),
});

/** `address` is the option or DOCKER_HOST; without one the usual sockets are tried, those of a user in `runtimeDir`. */
export async function connectEngine(address?: string, runtimeDir?: string): Promise<Engine> {
  return address === undefined ? await findEngine(usualSockets(runtimeDir)) : await greet(socketOf(address));
}

/** The first that answers. */
export async function findEngine(sockets: readonly string[]): Promise<Engine> {
  const tried: string[] = [];
  for (const socket of sockets) {
    try {
      if (isSocket(socket)) return await greet(socket);
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
  { image, timeoutMs = CALL_MS, signal }: CallOptions = {},
): Promise<T> {
  signal?.throwIfAborted();
  const deadline = AbortSignal.timeout(timeoutMs);
  const stop = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const stopped = Promise.withResolvers<never>();
  const onStop = () => stopped.reject(stop.reason);
  stop.addEventListener('abort', onStop, { once: true });
  try {
    return await Promise.race([work(stop), stopped.promise]);
  } catch (cause) {
    signal?.throwIfAborted();
    if (deadline.aborted) {
      const message = `The container engine at ${address} did not answer within ${timeoutMs / 1000} s: ${what}.`;
      throw new CellaError('ENGINE_UNREACHABLE', message, { cause });
    }
    throw engineError(cause, { address, what, image });
  } finally {
    stop.removeEventListener('abort', onStop);
  }
}

/** The same where the answer is looked at: whatever speaks at the socket may say anything. */
export async function ask<T>(
  engine: Pick<Engine, 'address'>,
  what: string,
  answer: z.ZodType<T>,
  work: (signal: AbortSignal) => Promise<unknown>,
  options?: CallOptions,
): Promise<T> {
  const told = answer.safeParse(await call(engine, what, work, options));
  if (told.success) return told.data;
  const [issue] = told.error.issues;
  const where = issue?.path.map(String).join('.') || 'it';
  const message = `The container engine at ${engine.address} answered what cannot be understood: ${what} (${where}: ${issue?.message}).`;
  throw new CellaError('CONTAINER_FAILED', message, { cause: told.error, details: { address: engine.address } });
}

async function greet(socket: string): Promise<Engine> {
  const address = `unix://${socket}`;
  const { default: Client } = await import('dockerode');
  // What the client would take from the environment by itself is taken away from it.
  const nothing = { host: undefined, port: undefined, ca: undefined, cert: undefined, key: undefined };
  const settings = { ...nothing, socketPath: socket, protocol: 'http', timeout: undefined } as const;
  const ask = async () => {
    // Made in here, since it still looks at DOCKER_HOST and refuses what it cannot read.
    const docker = new Client(settings);
    return { docker, told: Version.safeParse(await docker.version()) };
  };
  const { docker, told } = await call({ address }, 'asking for its version', ask, { timeoutMs: HELLO_MS });
  if (!told.success) {
    throw new CellaError('ENGINE_UNREACHABLE', `What listens at ${address} is no container engine.`);
  }
  const { Version: version, Components } = told.data;
  const podman = Components.some(({ Name }) => /podman/i.test(Name));
  return { docker, address, name: podman ? 'podman' : 'docker', version };
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
