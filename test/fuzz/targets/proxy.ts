/** What code asks of the proxy that leads out of its sandbox. */

import type { IncomingMessage } from 'node:http';
import type { Target } from '../engine.ts';

export async function proxy(): Promise<Target> {
  const { otherHost, readPassage } = await import('../../../src/sandbox/proxy/forward.ts');
  const { ambiguity, passedOn } = await import('../../../src/sandbox/proxy/headers.ts');
  const { readAllowed, readTarget, writeAllowed } = await import('../../../src/protocol/network-hosts.ts');
  return {
    name: 'proxy',
    parser: [
      { file: 'sandbox/proxy/headers.ts' },
      { file: 'sandbox/proxy/forward.ts', functions: ['readPassage', 'otherHost'] },
      { file: 'protocol/network-hosts.ts' },
    ],
    words: [
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
    },
  };
}

/** As Node's own parser gives it to the proxy, from what could be a request. */
function requestOf(text: string): IncomingMessage {
  const [first = '', ...lines] = text.split('\r\n');
  const rawHeaders: string[] = [];
  const headersDistinct: Record<string, string[]> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    rawHeaders.push(name, value);
    const all = headersDistinct[name.toLowerCase()];
    if (Array.isArray(all)) all.push(value);
    else
      Object.defineProperty(headersDistinct, name.toLowerCase(), {
        value: [value],
        enumerable: true,
        configurable: true,
      });
  }
  const headers = { host: headersDistinct.host?.[0] };
  return { url: first.split(' ')[1] ?? first, rawHeaders, headersDistinct, headers } as unknown as IncomingMessage;
}
