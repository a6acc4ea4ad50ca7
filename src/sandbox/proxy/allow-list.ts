/**
 * Decides which hosts a sandbox may reach. Each name is looked up once, and only those addresses are used. Allowed names that
 * lead to a private address are refused.
 */

import { BlockList, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { raceAbort } from '../../lib/abort.ts';
import { Semaphore } from '../../lib/queues.ts';
import { type AllowedHost, type NetworkTarget, parseAllowedHost, parseHost } from '../../protocol/network-hosts.ts';

/** All addresses of a name; undefined if too many other lookups are running. */
type FindAddresses = (name: string) => Promise<readonly string[] | undefined>;

export type DenialReason = 'not_listed' | 'port_not_listed' | 'private_address';

type Verdict =
  | { readonly kind: 'open'; readonly addresses: readonly string[] }
  | { readonly kind: 'denied'; readonly reason: DenialReason }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'busy' };

const DEFAULT_PORTS: readonly number[] = [80, 443];
const MOST_ADDRESSES = 16;

export class AllowList {
  readonly #entries: readonly AllowedHost[];
  readonly #find: FindAddresses;

  constructor(entries: readonly string[], find: FindAddresses) {
    this.#entries = entries.map((text) => {
      const entry = parseAllowedHost(text);
      if (!entry) throw new Error(`${JSON.stringify(text)} is not a valid entry of an allow-list`);
      return entry;
    });
    this.#find = find;
  }

  async check({ host, port }: NetworkTarget): Promise<Verdict> {
    const named = this.#entries.filter((entry) => covers(entry, host.text));
    if (named.length === 0) return { kind: 'denied', reason: 'not_listed' };
    if (!named.some((entry) => hasPort(entry, port))) return { kind: 'denied', reason: 'port_not_listed' };
    if (host.kind === 'address') return { kind: 'open', addresses: [host.text] };
    const found = await this.#find(host.text);
    if (!found) return { kind: 'busy' };
    if (found.length === 0) return { kind: 'unknown' };
    const addresses = found.slice(0, MOST_ADDRESSES).map((address) => normalizedAddress(address));
    // Deny the name if any of its addresses is private: a mix of public and private addresses suggests an attack.
    if (!addresses.every((address) => address !== undefined && this.#isReachable(address, port))) {
      return { kind: 'denied', reason: 'private_address' };
    }
    return { kind: 'open', addresses: addresses.filter((address) => address !== undefined) };
  }

  #isReachable(address: string, port: number): boolean {
    const named = this.#entries.some((entry) => entry.host === address && hasPort(entry, port));
    return named || !isPrivateAddress(address);
  }
}

function covers({ kind, host }: AllowedHost, name: string): boolean {
  if (kind !== 'wildcard') return host === name;
  const dot = name.indexOf('.');
  return dot > 0 && name.slice(dot + 1) === host;
}

function hasPort({ port }: AllowedHost, wanted: number): boolean {
  return port === undefined ? DEFAULT_PORTS.includes(wanted) : port === wanted;
}

/** Undefined for an address with a zone (`fe80::1%eth0`). */
function normalizedAddress(address: string): string | undefined {
  const host = parseHost(address.includes(':') ? `[${address}]` : address);
  return host?.kind === 'address' ? host.text : undefined;
}

/** All addresses of a name. */
export type ResolveName = (name: string) => Promise<readonly string[]>;

interface LookupLimits {
  /** Lookups that may run at once, including those whose caller has disconnected. */
  readonly lookups: number;
  /** Lookups that may wait for a free place. */
  readonly waiting: number;
  /** Timeout of a lookup, including the wait for a place. */
  readonly resolveMs: number;
}

export class NameLookups {
  readonly #resolve: ResolveName;
  readonly #limits: LookupLimits;
  readonly #places: Semaphore;

  constructor(resolve: ResolveName, limits: LookupLimits) {
    this.#resolve = resolve;
    this.#limits = limits;
    this.#places = new Semaphore(limits.lookups);
  }

  /** Empty if no answer arrives in time; undefined if too many other lookups are running. */
  async find(name: string): Promise<readonly string[] | undefined> {
    if (this.#places.full && this.#places.waiting >= this.#limits.waiting) return undefined;
    const late = AbortSignal.timeout(this.#limits.resolveMs);
    let begun = false;
    const resolve = async () => {
      if (late.aborted) return undefined;
      begun = true;
      // A name that cannot be resolved does not exist, as far as this resolver knows.
      return await this.#resolve(name).catch(() => []);
    };
    // A lookup keeps its place until it ends, even if its caller no longer waits.
    const found = this.#places.run(resolve, late);
    return await raceAbort(found, late, () => late.reason).catch(() => (begun ? [] : undefined));
  }
}

/** Special-purpose ranges of IANA's registry, and the one cloud metadata address outside of them. */
const IPV4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;

/** Ranges inside 2000::/3. Everything outside of that is private, including disguised IPv4 (NAT64). */
const IPV6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const ipv4 = new BlockList();
for (const [network, prefix] of IPV4) ipv4.addSubnet(network, prefix, 'ipv4');
const ipv6 = new BlockList();
for (const [network, prefix] of IPV6) ipv6.addSubnet(network, prefix, 'ipv6');
const global = new BlockList();
global.addSubnet('2000::', 3, 'ipv6');

/** Whether an address belongs to a private network or to this machine. Takes normalized addresses. */
export function isPrivateAddress(address: string): boolean {
  if (isIPv4(address)) return ipv4.check(address, 'ipv4') || isOwnAddress(address);
  return !global.check(address, 'ipv6') || ipv6.check(address, 'ipv6') || isOwnAddress(address);
}

/** Services on this machine's public addresses are not for its sandboxes. */
function isOwnAddress(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return own.some((one) => (one.family === 'IPv4' ? one.address : parseHost(`[${one.address}]`)?.text) === address);
}
