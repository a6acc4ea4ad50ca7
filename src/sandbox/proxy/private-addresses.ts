/** Which addresses are private. The proxy refuses allowed names that lead to one of them. */

import { BlockList, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { parseHost } from '../../protocol/network-hosts.ts';

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
