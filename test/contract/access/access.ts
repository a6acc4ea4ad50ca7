/** Who may use a server: the same over every storage. */

import { describe } from 'vitest';
import type { OpenStorage } from '../storage/samples.ts';
import { auditContract } from './audit.ts';
import { loginContract } from './logins.ts';
import { sessionTokenContract } from './session-tokens.ts';
import { startContract } from './start.ts';
import { tokenContract } from './tokens.ts';
import { userContract } from './users.ts';

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
