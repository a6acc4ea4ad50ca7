/** Ways out of a sandbox, each tried from inside. The same suite runs on a root host and on an ordinary user's. */

import { describe } from 'vitest';
import type { Open } from '../support/kernels/session.ts';
import { systemCalls } from './calls.ts';
import {
  descriptorsOfABusyTemplate,
  descriptorsOfAKernel,
  descriptorsOfAProgram,
  descriptorsOnATerminal,
} from './descriptors.ts';
import { filesOfTheHost, foldersOfAPolicy } from './files.ts';
import { foldersFromElsewhere } from './folders.ts';
import { hostItself, processesOfTheHost, terminalOfTheHost } from './host.ts';
import { anotherKernel, limitsOfPid1 } from './kernels.ts';
import { moreRights } from './rights.ts';
import { socketOfTheTemplate, socketsOfTheHost } from './sockets.ts';

/**
 * What a program has no part in, whose names end with it and beside which a kernel lives, is tried by kernels alone.
 * `agent` is a program in a sandbox whose memory is bounded by what it uses, and not by a limit of each process.
 * `terminal` is a program on one: that is its own, and there is no other.
 * `container` is a kernel in one, and `contained agent` an agent: there is no template, and places of the system are the
 * image's own.
 */
export type Inmate = 'kernel' | 'program' | 'terminal' | 'agent' | 'container' | 'contained agent';

export function escapeAttempts(open: Open, what: Inmate = 'kernel'): void {
  const kernel = what === 'kernel' || what === 'container';
  const contained = what === 'container' || what === 'contained agent';
  const agent = what === 'agent' || what === 'contained agent';
  describe("the host's files", () => {
    filesOfTheHost(open, contained ? [] : ['/etc/hostname', '/run', '/sys']);
    if (kernel) descriptorsOfAKernel(open);
    else if (what === 'terminal') descriptorsOnATerminal(open);
    else descriptorsOfAProgram(open);
    if (what === 'kernel') descriptorsOfABusyTemplate(open);
  });
  describe('the host itself', () => {
    hostItself(open);
    if (what !== 'terminal') terminalOfTheHost(open);
    if (kernel) processesOfTheHost(open);
  });
  describe('sockets of the host', () => socketsOfTheHost(open));
  if (kernel) describe('another kernel', () => anotherKernel(open));
  describe('system calls', () => systemCalls(open));
  describe('more rights', () => moreRights(open, agent ? [] : ['RLIMIT_DATA']));
  if (what === 'contained agent') return;
  describe("Cella's own processes", () => {
    if (!contained) socketOfTheTemplate(open);
    if (!agent) foldersOfAPolicy(open);
    if (!agent && !contained) foldersFromElsewhere(open);
    if (kernel) limitsOfPid1(open);
  });
}
