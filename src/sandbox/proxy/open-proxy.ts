/**
 * Opens the proxy of a sandbox with an allow-list. Loads the proxy, and with it Node's HTTP module, only if needed; most
 * sandboxes have no list.
 */

import { join } from 'node:path';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import type { ProxyPort } from '../../protocol/kernel-payloads.ts';
import { PROXY_SOCKET } from '../mount-points.ts';
import type { NetworkProxy } from './proxy.ts';

/** The usual proxy port. It is always free, because the sandbox has its own network. */
const PROXY_PORT = 3128;

/** Creates `folder` for the proxy's socket. Undefined if the policy is not a list of hosts. */
export async function openProxy({ network }: EnvironmentSpec, folder: string): Promise<NetworkProxy | undefined> {
  if (typeof network === 'string') return undefined;
  const { NetworkProxy } = await import('./proxy.ts');
  return await NetworkProxy.open({ allow: network.allow, folder });
}

/** `inside` is the proxy's folder as the environment sees it. */
export function proxyPort(inside: string): ProxyPort {
  return { port: PROXY_PORT, socket: join(inside, PROXY_SOCKET) };
}
