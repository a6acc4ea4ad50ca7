/** The container engine of this machine: Docker or Podman, found and spoken to through one client. */

import { statSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type Docker from 'dockerode';
import type { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { engineError, reasonOf } from './engine-error.ts';
import { type EngineName, greet } from './greeting.ts';

export interface Engine extends EngineName {
  readonly docker: Docker;
  /** `unix:///run/docker.sock`. */
  readonly address: string;
  /** Whether it is a user's own, without root's rights: ids inside are then not those of the machine. */
  readonly rootless: boolean;
}

export interface CallOptions {
  /** The image that a 404 speaks of. */
  readonly image?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const HELLO_MS = 15_000;
const CALL_MS = 30_000;

/** `address` is the option or DOCKER_HOST; without one the usual sockets are tried, those of a user in `runtimeDir`. */
export async function connectEngine(address?: string, runtimeDir?: string): Promise<Engine> {
  return address === undefined ? await findEngine(usualSockets(runtimeDir)) : await meet(socketOf(address));
}

/** The first that answers. */
export async function findEngine(sockets: readonly string[]): Promise<Engine> {
  const tried: string[] = [];
  for (const socket of sockets) {
    try {
      if (isSocket(socket)) return await meet(socket);
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

async function meet(socket: string): Promise<Engine> {
  const address = `unix://${socket}`;
  const { default: Client } = await import('dockerode');
  // What the client would take from the environment by itself is taken away from it.
  const nothing = { host: undefined, port: undefined, ca: undefined, cert: undefined, key: undefined };
  const settings = { ...nothing, socketPath: socket, protocol: 'http', timeout: undefined } as const;
  const hello = async (signal: AbortSignal) => {
    // Made in here, since it still looks at DOCKER_HOST and refuses what it cannot read.
    const docker = new Client(settings);
    return { docker, called: await greet(docker, signal) };
  };
  const { docker, called } = await call({ address }, 'asking who it is', hello, { timeoutMs: HELLO_MS });
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
