/** What Redis answers, parsed where it comes in. Texts are bytes until somebody says that they are text. */

import { CellaError } from '../../protocol/errors.ts';

export type Reply = Buffer | string | number | null | Reply[];

export type Argument = string | Buffer;

const isNothing = (reply: Reply | undefined): reply is null | undefined => reply === null || reply === undefined;

export function asBytes(reply: Reply | undefined): Buffer {
  if (Buffer.isBuffer(reply)) return reply;
  if (typeof reply === 'string') return Buffer.from(reply);
  throw strange(reply);
}

export const asText = (reply: Reply | undefined): string => asBytes(reply).toString();

export const asTextIfAny = (reply: Reply | undefined): string | undefined =>
  isNothing(reply) ? undefined : asText(reply);

export function asNumber(reply: Reply | undefined): number {
  const number = typeof reply === 'number' ? reply : Number(asText(reply));
  if (Number.isNaN(number)) throw strange(reply);
  return number;
}

export function asList(reply: Reply | undefined): Reply[] {
  if (Array.isArray(reply)) return reply;
  throw strange(reply);
}

/** From `field, value, field, value`. */
export function asPairs(reply: Reply | undefined): [string, Buffer][] {
  const list = asList(reply);
  const pairs: [string, Buffer][] = [];
  for (let at = 0; at + 1 < list.length; at += 2) pairs.push([asText(list[at]), asBytes(list[at + 1])]);
  return pairs;
}

function strange(reply: unknown): CellaError {
  return new CellaError('STORAGE_FAILED', `Redis answered with something else than was asked for (${typeof reply}).`);
}
