/** Random ids and secrets, the text form of tokens, and their lifetime. Storage only ever has the SHA-256 of a secret. */

import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 32 characters: five random bits each. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const SECRET_BYTES = 32;

export const SECRET_SHAPE = /^[A-Za-z0-9_-]{43}$/;

export const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url');

/** For ids, which are no secrets. */
export function newId(length: number): string {
  return Array.from(randomBytes(length), (byte) => ALPHABET[byte & 31]).join('');
}

export const digestOf = (secret: string): string => hash('sha256', secret);

/** Compares digests in constant time, never the secrets. */
export function sameDigest(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}

/** A second secret derived from this one. This one cannot be computed from it. */
export const derived = (secret: string, purpose: string): string =>
  createHmac('sha256', secret).update(purpose).digest('base64url');

export interface TokenParts {
  readonly id: string;
  readonly secret: string;
}

/** A token as text: `PREFIX_<id>_<secret>`. Different prefixes, so that one kind of token never passes for another. */
class TokenFormat {
  readonly #prefix: string;
  readonly #shape: RegExp;
  readonly #length: number;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#shape = new RegExp(`^${prefix}_([a-z2-7]{16})_(.{43})$`);
    this.#length = `${prefix}_`.length + 16 + 1 + 43;
  }

  format({ id, secret }: TokenParts): string {
    return `${this.#prefix}_${id}_${secret}`;
  }

  /** Undefined if it cannot be such a token. Cheap however long the text is. */
  parse(text: string): TokenParts | undefined {
    if (text.length !== this.#length) return undefined;
    const [, id = '', secret = ''] = this.#shape.exec(text) ?? [];
    return SECRET_SHAPE.test(secret) ? { id, secret } : undefined;
  }
}

const userTokens = new TokenFormat('cella');
const sessionTokens = new TokenFormat('cst');

export const tokenText = (parts: TokenParts): string => userTokens.format(parts);
export const parseToken = (text: string): TokenParts | undefined => userTokens.parse(text);
export const sessionTokenText = (parts: TokenParts): string => sessionTokens.format(parts);
export const parseSessionToken = (text: string): TokenParts | undefined => sessionTokens.parse(text);

/** The largest backward jump of the clock that is tolerated. After a larger one, secrets created later are not valid. */
const TOLERANCE_MS = 5 * 60_000;

interface Lifetime {
  readonly createdAt: number;
  /** Undefined: never. */
  readonly expiresAt?: number | undefined;
}

/** Not valid before its creation either: setting the clock back must not revive expired secrets. */
export function isAlive({ createdAt, expiresAt }: Lifetime, now: number): boolean {
  return expiresAt === undefined || (now < expiresAt && now >= createdAt - TOLERANCE_MS);
}

/** Permanently expired, not only because the clock was set back. */
export const isOver = ({ expiresAt }: Lifetime, now: number): boolean => expiresAt !== undefined && now >= expiresAt;
