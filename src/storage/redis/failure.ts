/** From an error of the Redis client or server to one that names the server, the reason and what to do. */

import { CellaError } from '../../protocol/errors.ts';

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'there is no host of that name',
  EAI_AGAIN: 'the name of the host cannot be looked up at the moment',
  EHOSTUNREACH: 'there is no way to the host',
  ENETUNREACH: 'there is no way to the host',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ETIMEDOUT: 'it does not answer',
};

/** The server is there and will have nothing to do with us, or not yet. */
const REFUSALS = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|Client sent AUTH|DB index)|LOADING|MASTERDOWN)/;

const PASSWORD = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|Client sent AUTH))/;

export function unreachable(where: string, reason: string): CellaError {
  const next = PASSWORD.test(reason)
    ? 'Correct the user and the password in its address.'
    : 'Start it, or use file storage.';
  return new CellaError('STORAGE_UNREACHABLE', `Redis did not answer at ${where} (${reason}). ${next}`, {
    details: { where, reason },
  });
}

/** From an error that the server answered with. */
export function refused(where: string, message: string): CellaError {
  if (REFUSALS.test(message)) return unreachable(where, message);
  const [word = ''] = message.split(' ', 1);
  const advice: Record<string, string> = {
    OOM: ' Give the server more memory (maxmemory).',
    MISCONF: ' It cannot save to its disk: look at its log.',
    READONLY: ' It is a replica: use the address of the primary.',
  };
  return new CellaError('STORAGE_FAILED', `Redis refused a command at ${where}: ${message}.${advice[word] ?? ''}`, {
    details: { where, reason: word },
  });
}

/** Errors of the client are not passed on: some of them carry its options. */
export function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  const inner = cause instanceof AggregateError ? cause.errors[0] : undefined;
  return reasons[code] ?? (inner ? reasonOf(inner) : cause.message);
}
