/** A session token as text: `cst_<id>_<secret>`. It looks like no token of a user, so that neither passes for the other. */

import { SECRET } from './secret.ts';
import type { TokenParts } from './token-text.ts';

const SHAPE = /^cst_([a-z2-7]{16})_(.{43})$/;
const LENGTH = 'cst_'.length + 16 + 1 + 43;

export const sessionTokenText = ({ id, secret }: TokenParts): string => `cst_${id}_${secret}`;

/** Undefined where it cannot be one, however long it is. */
export function parseSessionToken(text: string): TokenParts | undefined {
  if (text.length !== LENGTH) return undefined;
  const [, id = '', secret = ''] = SHAPE.exec(text) ?? [];
  return SECRET.test(secret) ? { id, secret } : undefined;
}
