/** What a session may be given, by who asks: members get a sandbox of their own, and nothing else of the machine. */

import { CellaError } from '../../protocol/errors.ts';
import type { SessionSettings } from '../../protocol/session-info.ts';
import type { Privilege } from '../../settings/settings-table.ts';
import type { Principal } from '../access/authorization.ts';

type Asked = Pick<SessionSettings, 'executor' | 'sandbox' | 'cwd'>;

export function checkPrivileges(principal: Principal, asked: Asked, membersMay: readonly Privilege[]): void {
  // Of an administrator's token only what it was made for.
  if (principal.scopes.includes('admin')) return;
  const missing = [...neededFor(asked)].find(([privilege]) => !membersMay.includes(privilege));
  if (!missing) return;
  const [privilege, what] = missing;
  const message = `${what} is for administrators here, or for all with \`cella serve --members-may ${privilege}\`.`;
  throw new CellaError('FORBIDDEN', message, { details: { privilege } });
}

function* neededFor({ executor, sandbox, cwd }: Asked): Iterable<[Privilege, string]> {
  if (executor === 'in-process') yield ['in-process', 'The executor `in-process`'];
  if (sandbox === 'off') yield ['unsandboxed', 'Code without a sandbox'];
  if (cwd !== undefined) yield ['folders', 'A folder of the machine as `cwd`'];
  if (typeof sandbox !== 'object') return;
  if ((sandbox.readable?.length ?? 0) + (sandbox.writable?.length ?? 0) > 0) {
    yield ['folders', 'A folder of the machine in the sandbox'];
  }
  if (sandbox.network === 'host') yield ['network', 'The network of the machine'];
  // A list may name hosts that only this machine can reach.
  else if (sandbox.network !== undefined && sandbox.network !== 'none')
    yield ['network', 'A network with a list of hosts'];
  // Without control groups, limits hold for each process and not for all together.
  if (sandbox.cgroup === 'if-available') yield ['unsandboxed', 'A sandbox without control groups'];
}
