/** Opens the proxy of an environment whose network policy is a list of hosts, and says how pid 1 reaches it. */

import { join } from 'node:path';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import type { ProxyPort } from '../../protocol/host-payloads.ts';
import { PROXY_SOCKET } from '../mount-points.ts';
import type { NetworkProxy } from './proxy.ts';

/** The usual port of a proxy. It is free: the sandbox has a network of its own. */
const PROXY_PORT = 3128;

/** Makes `folder` for its socket. Undefined if the policy is no list of hosts. */
export async function openProxy({ network }: EnvironmentSpec, folder: string): Promise<NetworkProxy | undefined> {
  if (typeof network === 'string') return undefined;
  // It brings Node's HTTP along, which most sessions never need.
  const { NetworkProxy } = await import('./proxy.ts');
  return await NetworkProxy.open({ allow: network.allow, folder });
}

/** `inside`: where the environment sees the proxy's folder. */
export function proxyPort(inside: string): ProxyPort {
  return { port: PROXY_PORT, socket: join(inside, PROXY_SOCKET) };
}
