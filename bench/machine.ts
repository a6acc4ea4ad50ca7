/** What the numbers were measured on. */

import { availableParallelism, cpus, release, totalmem } from 'node:os';
import type { Peer } from './peer.ts';
import type { Machine } from './result.ts';
import { rounded } from './statistics.ts';

/** `jupyterServer` where it was measured. */
export function describeMachine(peer: Peer, jupyterServer?: string): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGb: rounded(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    python: peer.pythonVersion,
    ipykernel: peer.ipykernelVersion,
    ...(jupyterServer === undefined ? {} : { jupyterServer }),
  };
}
