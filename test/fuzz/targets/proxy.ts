/** What code asks of the proxy that leads out of its sandbox. */

import type { IncomingMessage } from 'node:http';
import type { NetworkTarget as HostTarget } from '../../../src/protocol/network-hosts.ts';
import type { Target } from '../engine.ts';
import { requestOf } from './requests.ts';

const ALLOWED = ['example.org', '*.example.org', 'a.b:8080', 'db:5432', '10.0.0.5:5432', '[2001:db8::1]:80', '8.8.8.8'];
const OURS = /^(?:127\.|10\.|192\.168\.|169\.254\.|0\.|172\.(?:1[6-9]|2\d|3[01])\.|fe80:|f[cd]|::)/;

export async function proxy(): Promise<Target> {
  const { otherHost, readProxyRequest: readPassage } = await import('../../../src/sandbox/proxy/forward.ts');
  const { ambiguity, forwardedHeaders: passedOn } = await import('../../../src/sandbox/proxy/forward.ts');
  const {
    parseAllowedHost: readAllowed,
    parseTarget: readTarget,
    formatAllowedHost: writeAllowed,
  } = await import('../../../src/protocol/network-hosts.ts');
  const { AllowList } = await import('../../../src/sandbox/proxy/allow-list.ts');
  let found: readonly string[] | undefined;
  const list = new AllowList(ALLOWED, async () => found);
  /** What a name leads to is said by headers of the request. A name leads to no address of ours that is not listed. */
  const judge = async (target: HostTarget, request: IncomingMessage): Promise<void> => {
    const { 'x-address': addresses, 'x-busy': busy } = request.headersDistinct;
    found = busy ? undefined : (addresses ?? []);
    const verdict = await list.check(target);
    if (verdict.kind !== 'open' || target.host.kind === 'address') return;
    const own = verdict.addresses.find((each) => OURS.test(each) && !ALLOWED.some((entry) => entry.startsWith(each)));
    if (own !== undefined) throw new Error(`a name leads to ${own}`);
  };
  return {
    name: 'proxy',
    parser: [
      { file: 'sandbox/proxy/forward.ts', functions: ['ambiguity', 'forwardedHeaders', 'namedByConnection'] },
      { file: 'sandbox/proxy/forward.ts', functions: ['readProxyRequest', 'otherHost'] },
      {
        file: 'sandbox/proxy/allow-list.ts',
        functions: ['AllowList', 'check', '#isReachable', 'covers', 'hasPort', 'normalizedAddress'],
      },
      { file: 'sandbox/proxy/allow-list.ts', functions: ['isPrivateAddress', 'isOwnAddress'] },
      { file: 'protocol/network-hosts.ts' },
    ],
    words: [
      'example.org',
      'x-address: 127.0.0.1',
      'x-address: 8.8.8.8',
      'x-busy: 1',
      '::ffff:10.0.0.1',
      'Host: a.b',
      'Connection: host',
      'Content-Length: 1',
      'Transfer-Encoding: chunked',
      '\r\n',
      ':80',
      '[::1]',
      '*.',
      '127.0.0.1',
      '%',
      '@',
      'é',
    ],
    take: (input) => {
      const request = requestOf(input.toString('latin1'));
      const target = readTarget(request.url ?? '');
      if (target) otherHost(request, target, target.port);
      const passage = readPassage(request);
      if (typeof passage !== 'string' && /[\s/@]/.test(passage.authority))
        throw new Error(`an authority that is none: ${passage.authority}`);
      ambiguity(request);
      passedOn(request);
      const allowed = readAllowed(request.url ?? '');
      if (allowed && JSON.stringify(readAllowed(writeAllowed(allowed))) !== JSON.stringify(allowed))
        throw new Error('an entry that changes');
      return target && judge(target, request);
    },
  };
}
