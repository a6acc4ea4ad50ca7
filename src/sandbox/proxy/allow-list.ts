/** What a sandbox may reach, and where that is: each name is resolved once, and only those addresses are used. */

import { type AllowedHost, readAllowed, readHost, type Target } from '../../protocol/network-hosts.ts';
import { isGuarded } from './guarded.ts';

/** All addresses of a name; undefined where it is not looked up, as others are. */
export type Find = (name: string) => Promise<readonly string[] | undefined>;

export type Refusal = 'not_listed' | 'port_not_listed' | 'private_address';

export type Verdict =
  | { readonly kind: 'open'; readonly addresses: readonly string[] }
  | { readonly kind: 'denied'; readonly reason: Refusal }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'busy' };

const USUAL_PORTS: readonly number[] = [80, 443];
const MOST_ADDRESSES = 16;

export class AllowList {
  readonly #entries: readonly AllowedHost[];
  readonly #find: Find;

  constructor(entries: readonly string[], find: Find) {
    this.#entries = entries.map((text) => {
      const entry = readAllowed(text);
      if (!entry) throw new Error(`${JSON.stringify(text)} is no entry of an allow-list`);
      return entry;
    });
    this.#find = find;
  }

  async judge({ host, port }: Target): Promise<Verdict> {
    const named = this.#entries.filter((entry) => covers(entry, host.text));
    if (named.length === 0) return { kind: 'denied', reason: 'not_listed' };
    if (!named.some((entry) => hasPort(entry, port))) return { kind: 'denied', reason: 'port_not_listed' };
    if (host.kind === 'address') return { kind: 'open', addresses: [host.text] };
    const found = await this.#find(host.text);
    if (!found) return { kind: 'busy' };
    if (found.length === 0) return { kind: 'unknown' };
    const addresses = found.slice(0, MOST_ADDRESSES).map((address) => spelled(address));
    // One that leads into a network of ours beside others is no mistake of a friend's.
    if (!addresses.every((address) => address !== undefined && this.#isReachable(address, port))) {
      return { kind: 'denied', reason: 'private_address' };
    }
    return { kind: 'open', addresses: addresses.filter((address) => address !== undefined) };
  }

  #isReachable(address: string, port: number): boolean {
    const named = this.#entries.some((entry) => entry.host === address && hasPort(entry, port));
    return named || !isGuarded(address);
  }
}

function covers({ kind, host }: AllowedHost, name: string): boolean {
  if (kind !== 'wildcard') return host === name;
  const dot = name.indexOf('.');
  return dot > 0 && name.slice(dot + 1) === host;
}

function hasPort({ port }: AllowedHost, wanted: number): boolean {
  return port === undefined ? USUAL_PORTS.includes(wanted) : port === wanted;
}

/** Undefined for one that belongs to a link (`fe80::1%eth0`). */
function spelled(address: string): string | undefined {
  const host = readHost(address.includes(':') ? `[${address}]` : address);
  return host?.kind === 'address' ? host.text : undefined;
}
