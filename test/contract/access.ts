/** Who may use a server: the same over every storage. */

import { describe } from 'vitest';
import { auditContract } from './access-audit.ts';
import { loginContract } from './access-logins.ts';
import { sessionTokenContract } from './access-session-tokens.ts';
import { startContract } from './access-start.ts';
import { tokenContract } from './access-tokens.ts';
import { userContract } from './access-users.ts';
import type { OpenStorage } from './storage-samples.ts';

export function accessContract(name: string, open: OpenStorage): void {
  describe(`access over ${name} storage`, () => {
    describe('a start', () => startContract(open));
    describe('users', () => userContract(open));
    describe('tokens', () => tokenContract(open));
    describe('session tokens', () => sessionTokenContract(open));
    describe('browser logins', () => loginContract(open));
    describe('the audit log', () => auditContract(open));
  });
}
