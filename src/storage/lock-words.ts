/** What is said of a lock that cannot be had, the same in every storage. */

import { basename } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import type { LockHolder } from './contract.ts';

export function busy(
  agentKey: string,
  { pid, host, command, since }: Omit<LockHolder, 'id'> & { command: string },
): CellaError {
  const process = `process ${pid}${command ? ` (${command})` : ''} on ${host}`;
  const time = new Date(since).toISOString();
  return new CellaError('AGENT_BUSY', `Agent ${JSON.stringify(agentKey)} is in use by ${process} since ${time}.`, {
    details: { pid, since, host, ...(command ? { command } : {}) },
  });
}

export function leaseLost(agentKey: string): CellaError {
  const message = `Agent ${JSON.stringify(agentKey)} was taken over by another process: nothing more is written from here.`;
  return new CellaError('LEASE_LOST', message, { details: { agentKey } });
}

export function aborted(agentKey: string, cause: unknown): CellaError {
  return new CellaError('ABORTED', `Nobody waits for agent ${JSON.stringify(agentKey)} any longer.`, { cause });
}

/** The program and its subcommand, such as `cella chat`: other arguments may hold what is nobody's business. */
export function ownCommand(): string {
  const [, program = process.execPath, word = ''] = process.argv;
  return [basename(program).replace(/\.[cm]?[jt]s$/, ''), ...(/^[a-z][a-z-]{0,19}$/.test(word) ? [word] : [])].join(
    ' ',
  );
}
