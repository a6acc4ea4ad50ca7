/** Random ids and secrets. A secret is shown once; storage only ever has its SHA-256. */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 32 of them, so that five bits of chance make one character. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const SECRET_BYTES = 32;

export const SECRET = /^[A-Za-z0-9_-]{43}$/;

export const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url');

/** Not secret: for names of things. */
export function newId(length: number): string {
  return Array.from(randomBytes(length), (byte) => ALPHABET[byte & 31]).join('');
}

export const digestOf = (secret: string): string => hash('sha256', secret);

/** Takes as long for any two texts of this length: what is compared are digests, never secrets. */
export function sameDigest(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}

/** Another secret that follows from this one, and from which this one does not follow. */
export const derived = (secret: string, purpose: string): string =>
  createHmac('sha256', secret).update(purpose).digest('base64url');
