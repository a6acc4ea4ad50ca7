/** Who a request says it is for, and which page sent it: a page of another site gets no answer, however it came here. */

import { isIP } from 'node:net';

export interface HostRules {
  /** Whether only programs of this machine can reach the server. */
  readonly loopback: boolean;
  /** Names that it goes by beside its address: behind a proxy, or in DNS. */
  readonly names: readonly string[];
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** What is wrong with the Host header; a name that leads here by DNS rebinding is none of ours. */
export function hostProblem(host: string | undefined, { loopback, names }: HostRules): string | undefined {
  const name = nameOf(host);
  if (name === undefined) return 'The Host header is missing, or no host.';
  if (LOOPBACK.has(name) || names.includes(name)) return undefined;
  // A name can be made to lead anywhere, an address cannot.
  if (!loopback && isIP(name.replace(/^\[|\]$/g, '')) !== 0) return undefined;
  return `This server does not go by the name ${JSON.stringify(name.slice(0, 100))}.`;
}

/** What is wrong with the Origin header: only the server's own pages may speak to it. Programs send none. */
export function originProblem(origin: string | undefined, host: string | undefined): string | undefined {
  if (origin === undefined) return undefined;
  const from = URL.parse(origin);
  const isPage = from !== null && (from.protocol === 'http:' || from.protocol === 'https:');
  // Behind a proxy that speaks TLS for us the schemes differ, and the host does not.
  if (isPage && host !== undefined && from.host === URL.parse(`${from.protocol}//${host}`)?.host) return undefined;
  return 'The request comes from a page of another site.';
}

function nameOf(host: string | undefined): string | undefined {
  if (host === undefined || !/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?$/.test(host)) return undefined;
  return host.replace(/:\d+$/, '').toLowerCase();
}
