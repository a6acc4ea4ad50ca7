/** What went wrong between Cella and a container engine, from the client's errors to ours. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { DEFAULT_IMAGE } from './default-image.ts';

interface Attempt {
  readonly address: string;
  /** What was wanted: `starting a container`. */
  readonly what: string;
  readonly image?: string | undefined;
}

const Answer = z.object({ statusCode: z.int(), json: z.unknown().optional() });
const Words = z.object({ message: z.string() });

const NOT_FOR_US = 'this user may not use it: join the group of the socket, or start an engine without root';

const unreachable: Readonly<Record<string, string>> = {
  ENOENT: 'there is no socket',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it broke the connection off',
  EPIPE: 'it broke the connection off',
  EACCES: NOT_FOR_US,
  EPERM: NOT_FOR_US,
  ENOTSOCK: 'that is no socket',
};

export function engineError(error: unknown, { address, what, image }: Attempt): CellaError {
  if (error instanceof CellaError) return error;
  const problem = connectionProblem(error);
  if (problem !== undefined) {
    const message = `The container engine at ${address} cannot be reached (${problem}): ${what}.`;
    return new CellaError('ENGINE_UNREACHABLE', message, { cause: error, details: { address } });
  }
  const words = reasonOf(error);
  const status = Answer.safeParse(error).data?.statusCode;
  if (status === 404 && image !== undefined && /image/i.test(words)) return imageNotFound(image, error);
  return new CellaError('CONTAINER_FAILED', `The container engine failed at ${what}: ${words}.`, {
    cause: error,
    details: { address, ...(status === undefined ? {} : { status }) },
  });
}

export function imageNotFound(image: string, cause?: unknown): CellaError {
  const way = image === DEFAULT_IMAGE ? '`cella image build` makes it' : `\`docker pull ${image}\` fetches it`;
  const message = `There is no image ${image} on this machine: ${way}. Nothing is pulled by itself.`;
  return new CellaError('IMAGE_NOT_FOUND', message, { cause, details: { image } });
}

/** One line, in the words of whoever failed. */
export function reasonOf(error: unknown): string {
  const problem = connectionProblem(error);
  if (problem !== undefined) return problem;
  const told = Words.safeParse(Answer.safeParse(error).data?.json).data?.message;
  const text = told ?? (error instanceof Error ? error.message : String(error));
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '').slice(0, 1000);
}

/** An answer that never came, as opposed to one that says no. */
function connectionProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  return unreachable[error.code];
}

/** Whether asking again has no use. */
export function isGone(error: unknown): boolean {
  return Answer.safeParse(error).data?.statusCode === 404;
}
