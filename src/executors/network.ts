/** The network of an enclosure: where its policy is a list of hosts, a proxy of ours, and how pid 1 is told of it. */

import { join } from 'node:path';
import type { NetworkProxy } from '../sandbox/proxy/proxy.ts';
import { SOCKET_NAME } from '../sandbox/proxy/socket-name.ts';
import type { LaunchSpec } from '../sandbox/spec.ts';

/** Where pid 1 listens inside, on loopback, and the socket, as it is inside, that it passes connections on to. */
export interface ProxySpec {
  readonly port: number;
  readonly socket: string;
}

/** The usual one of proxies. In a network of its own nobody else has it. */
const PORT = 3128;

/** `folder` is made for it; the enclosure sees it at `inside`. Undefined where the policy is no list. */
export async function openProxy({ network }: LaunchSpec, folder: string): Promise<NetworkProxy | undefined> {
  if (typeof network === 'string') return undefined;
  // It brings Node's HTTP along, which most sessions never need.
  const { NetworkProxy } = await import('../sandbox/proxy/proxy.ts');
  return await NetworkProxy.open({ allow: network.allow, folder });
}

export function proxySpec(inside: string): ProxySpec {
  return { port: PORT, socket: join(inside, SOCKET_NAME) };
}
