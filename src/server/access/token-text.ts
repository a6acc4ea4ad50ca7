/** A token as text: `cella_<id>_<secret>`. */

import { SECRET } from './secret.ts';

const SHAPE = /^cella_([a-z2-7]{16})_(.{43})$/;
const LENGTH = 'cella_'.length + 16 + 1 + 43;

export interface TokenParts {
  readonly id: string;
  readonly secret: string;
}

export const tokenText = ({ id, secret }: TokenParts): string => `cella_${id}_${secret}`;

/** Undefined where it cannot be a token, however long it is. */
export function parseToken(text: string): TokenParts | undefined {
  if (text.length !== LENGTH) return undefined;
  const [, id = '', secret = ''] = SHAPE.exec(text) ?? [];
  return SECRET.test(secret) ? { id, secret } : undefined;
}
