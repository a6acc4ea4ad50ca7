/** Access on a place of its own, with people to try it with. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { CreateToken, Role } from '../../../src/protocol/access-models.ts';
import { type AccessControl, type AccessOptions, openAccess } from '../../../src/server/access/access-control.ts';
import type { Principal } from '../../../src/server/access/authorization.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { type OpenStorage, onePlace } from '../storage/samples.ts';

export interface AccessPlace {
  readonly dataDir: string;
  /** Another storage and another access on the same place, as after a restart or in another server. */
  readonly again: (options?: Partial<AccessOptions>) => Promise<{ access: AccessControl; storage: Storage }>;
}

/** A fresh place; all that is opened on it is closed after the test. */
export function accessPlace(open: OpenStorage): AccessPlace {
  const dataDir = mkdtempSync(join(tmpdir(), 'cella-access-'));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const storageAgain = onePlace(open);
  const again: AccessPlace['again'] = async (options = {}) => {
    const storage = await storageAgain(options.clock ? { clock: options.clock } : {});
    const access = await openAccess({ storage, dataDir, ...options });
    onTestFinished(() => access.close());
    return { access, storage };
  };
  return { dataDir, again };
}

export async function openedAccess(open: OpenStorage, options?: Partial<AccessOptions>): Promise<AccessControl> {
  return (await accessPlace(open).again(options)).access;
}

/** A user with a token, and who it is. */
export async function newUser(
  access: AccessControl,
  name: string,
  role: Role = 'member',
  token: Partial<CreateToken> = {},
): Promise<{ principal: Principal; token: string; tokenId: string }> {
  await access.users.create(access.localAdmin(), { name, role });
  const made = await access.tokens.create(access.localAdmin(), { name: `of ${name}`, user: name, ...token });
  return { principal: await access.authenticate(made.token), token: made.token, tokenId: made.info.id };
}

/** A clock that a test sets. */
export function handClock(at = Date.now()): { readonly clock: () => number; set: (at: number) => void } {
  let now = at;
  const set = (to: number) => {
    now = to;
  };
  return { clock: () => now, set };
}
