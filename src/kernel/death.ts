/** How a kernel's end is told: what happened to it, and why. */

import type { Death } from '../protocol/events.ts';
import type { Exit } from './link.ts';

/** How a kernel ends that had no memory left for its own work: kernel.py. */
const WITHOUT_MEMORY = 72;

export function describeDeath(exit: Exit, violation: string | undefined, closing: boolean, lastStderr: string): Death {
  const how: Pick<Death, 'signal' | 'exitCode' | 'lastStderr'> = {
    ...(exit.signal === undefined ? {} : { signal: exit.signal }),
    ...(exit.exitCode === undefined ? {} : { exitCode: exit.exitCode }),
    ...(lastStderr === '' ? {} : { lastStderr }),
  };
  if (violation !== undefined) {
    return { code: 'KERNEL_PROTOCOL', message: `The kernel was cut off: it sent ${violation}.`, ...how };
  }
  if (exit.outOfMemory || exit.exitCode === WITHOUT_MEMORY) {
    const ended = exit.signal === undefined ? 'ended' : 'was killed';
    return { code: 'KERNEL_OUT_OF_MEMORY', message: `The kernel ${ended}: it used more memory than it may.`, ...how };
  }
  if (exit.signal === 'SIGXCPU') {
    return { code: 'KERNEL_CPU_LIMIT', message: 'The kernel was killed: it used up its CPU seconds.', ...how };
  }
  return { code: 'KERNEL_DIED', message: closing ? 'The kernel was closed.' : sentence(exit), ...how };
}

function sentence(exit: Exit): string {
  if (exit.lost !== undefined) return `The kernel is gone: ${exit.lost}.`;
  if (exit.signal !== undefined) return `The kernel was killed by ${exit.signal}.`;
  return `The kernel ended with exit code ${exit.exitCode}.`;
}
