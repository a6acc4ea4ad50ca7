/** Which engine listens at a socket, in its own words. */

import { Readable } from 'node:stream';
import type Docker from 'dockerode';
import { z } from 'zod';

export interface EngineName {
  readonly name: 'docker' | 'podman';
  readonly version: string;
}

const Greeting = z.object({ headers: z.object({ server: z.string().optional() }) });
const Version = z.object({
  Version: z.string(),
  Components: z.array(z.object({ Name: z.string() })).default([]),
});

/** Undefined where it is no engine. */
export async function greet(docker: Docker, signal: AbortSignal): Promise<EngineName | undefined> {
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
  return Greeting.safeParse(answer).data?.headers.server ?? '';
}
