/** Random ids and secrets, the text form of tokens, and their lifetime. Storage only ever has the SHA-256 of a secret. */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 32 of them, so that five bits of chance make one character. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const SECRET_BYTES = 32;

export const SECRET_SHAPE = /^[A-Za-z0-9_-]{43}$/;

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

const TOKEN_SHAPE = /^cella_([a-z2-7]{16})_(.{43})$/;
const TOKEN_LENGTH = 'cella_'.length + 16 + 1 + 43;

export interface TokenParts {
  readonly id: string;
  readonly secret: string;
}

export const tokenText = ({ id, secret }: TokenParts): string => `cella_${id}_${secret}`;

/** Undefined where it cannot be a token, however long it is. */
export function parseToken(text: string): TokenParts | undefined {
  if (text.length !== TOKEN_LENGTH) return undefined;
  const [, id = '', secret = ''] = TOKEN_SHAPE.exec(text) ?? [];
  return SECRET_SHAPE.test(secret) ? { id, secret } : undefined;
}

const SHAPE = /^cst_([a-z2-7]{16})_(.{43})$/;
const LENGTH = 'cst_'.length + 16 + 1 + 43;

export const sessionTokenText = ({ id, secret }: TokenParts): string => `cst_${id}_${secret}`;

/** Undefined where it cannot be one, however long it is. */
export function parseSessionToken(text: string): TokenParts | undefined {
  if (text.length !== LENGTH) return undefined;
  const [, id = '', secret = ''] = SHAPE.exec(text) ?? [];
  return SECRET_SHAPE.test(secret) ? { id, secret } : undefined;
}

/** Clocks are set right by steps of this size at most; a larger step back makes what was made later unusable. */
const TOLERANCE_MS = 5 * 60_000;

export interface Lifetime {
  readonly createdAt: number;
  /** Never, where it is left out. */
  readonly expiresAt?: number | undefined;
}

/** A clock that was set back brings nothing back to life that was to end: before its time it is not valid either. */
export function isAlive({ createdAt, expiresAt }: Lifetime, now: number): boolean {
  return expiresAt === undefined || (now < expiresAt && now >= createdAt - TOLERANCE_MS);
}

/** Gone for good, and not only by a clock that was set back. */
export const isOver = ({ expiresAt }: Lifetime, now: number): boolean => expiresAt !== undefined && now >= expiresAt;
