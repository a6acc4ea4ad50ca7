/** Opens the proxy of an environment whose network policy is a list of hosts, and says how pid 1 reaches it. */

import { join } from 'node:path';
import { PROXY_SOCKET } from '../mount-points.ts';
import type { EnvironmentSpec } from '../spec.ts';
import type { NetworkProxy } from './proxy.ts';

/** Where pid 1 listens inside, on loopback, and the socket, as it is inside, that it passes connections on to. */
export interface ProxySpec {
  readonly port: number;
  readonly socket: string;
}

/** The usual one of proxies. In a network of its own nobody else has it. */
const PROXY_PORT = 3128;

/** `folder` is made for it; the enclosure sees it at `inside`. Undefined where the policy is no list. */
export async function openProxy({ network }: EnvironmentSpec, folder: string): Promise<NetworkProxy | undefined> {
  if (typeof network === 'string') return undefined;
  // It brings Node's HTTP along, which most sessions never need.
  const { NetworkProxy } = await import('./proxy.ts');
  return await NetworkProxy.open({ allow: network.allow, folder });
}

export function proxySpec(inside: string): ProxySpec {
  return { port: PROXY_PORT, socket: join(inside, PROXY_SOCKET) };
}
