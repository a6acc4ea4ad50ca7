/** Finds the peers of the comparison on this machine. A missing peer is an error that names it, never an empty result. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import type * as zeromq from 'zeromq';
import { CellaError } from '../../src/protocol/errors.ts';

export type ZeroMq = typeof zeromq;

export interface Peer {
  readonly zeromq: ZeroMq;
  readonly python: string;
  readonly pythonVersion: string;
  readonly ipykernelVersion: string;
}

/** Debian's Python, for which python3-ipykernel and python3-numpy are installed. Both sides use it. */
export const PYTHON = '/usr/bin/python3';

const VERSIONS = 'import platform, ipykernel, numpy; print(platform.python_version(), ipykernel.__version__)';

export async function findPeer(python: string = PYTHON): Promise<Peer> {
  const loaded = await loadZeroMq();
  const [pythonVersion = '', ipykernelVersion = ''] = (await versions(python)).trim().split(' ');
  return { zeromq: loaded, python, pythonVersion, ipykernelVersion };
}

async function loadZeroMq(): Promise<ZeroMq> {
  try {
    return await import('zeromq');
  } catch (cause) {
    throw new CellaError(
      'PEER_MISSING',
      'The benchmark talks to ipykernel through the npm package zeromq, which does not load. Run `npm ci` in the checkout.',
      { cause, details: { missing: 'zeromq' } },
    );
  }
}

async function versions(python: string): Promise<string> {
  try {
    return (await promisify(execFile)(python, ['-c', VERSIONS])).stdout;
  } catch (cause) {
    throw new CellaError(
      'PEER_MISSING',
      `The benchmark compares with ipykernel, and ${python} cannot import it and numpy. On Debian: apt-get install python3-ipykernel python3-numpy.`,
      { cause, details: { missing: 'ipykernel', python } },
    );
  }
}

/** All are open at the same time, so that they differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('A TCP server has no port.');
    return address.port;
  });
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
