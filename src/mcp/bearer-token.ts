/** The bearer token of the HTTP server: from the environment, from a file, or made here. Never from the command line. */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../lib/errno.ts';
import { readOwnFile } from '../lib/private-file.ts';
import { CellaError } from '../protocol/errors.ts';

const MIN_TOKEN_CHARACTERS = 16;
const MAX_TOKEN_FILE_BYTES = 4096;

interface BearerTokenSource {
  /** CELLA_MCP_TOKEN. */
  readonly given?: string | undefined;
  readonly file?: string | undefined;
  readonly dataDir: string;
}

interface BearerToken {
  readonly value: string;
  /** Where a person finds it. */
  readonly where: string;
}

export async function findToken({ given, file, dataDir }: BearerTokenSource): Promise<BearerToken> {
  if (given !== undefined) return { value: checkToken(given, 'CELLA_MCP_TOKEN'), where: 'CELLA_MCP_TOKEN' };
  if (file !== undefined) return { value: await readTokenFile(file), where: file };
  const own = join(dataDir, 'mcp-token');
  await mkdir(dirname(own), { recursive: true, mode: 0o700 });
  try {
    await writeFile(own, `${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw tokenError(own, error);
  }
  return { value: await readTokenFile(own), where: own };
}

/** In a time that tells nothing of the token. */
export function isToken(offered: string, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(offered), digest(token));
}

/** A file that others can read holds no secret, and a link may lead to a file of somebody else. */
async function readTokenFile(path: string): Promise<string> {
  const file = await readOwnFile(path, { maxBytes: MAX_TOKEN_FILE_BYTES }).catch((error) => {
    throw tokenError(path, error);
  });
  if (file.kind === 'missing') throw tokenError(path, 'there is no such file');
  if (file.kind === 'unusable') throw tokenError(path, file.reason);
  if ((file.mode & 0o077) !== 0) {
    throw new CellaError('INVALID_OPTIONS', `Others can read the token in ${path}. Run: chmod 600 ${path}`);
  }
  return checkToken(file.text.trim(), path);
}

function checkToken(token: string, where: string): string {
  if (token.length >= MIN_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(token)) return token;
  const message = `The token in ${where} must be at least ${MIN_TOKEN_CHARACTERS} characters of plain text without spaces.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function tokenError(path: string, cause: unknown): CellaError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('INVALID_OPTIONS', `The token cannot be read from ${path}: ${reason}.`, { cause });
}
