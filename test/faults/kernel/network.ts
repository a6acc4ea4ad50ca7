/** A sandbox whose network is a list of hosts: what it reaches, and what it does not. The same suite for every place. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';

const run = promisify(execFile);
/** Of the host's loopback, and none that programs keep from their proxy. */
const HOST = '127.0.0.2';
const LARGE = 4_000_000;

const FETCH = `
import urllib.error, urllib.request
def fetch(url, **options):
    try:
        with urllib.request.urlopen(url, timeout=20, **options) as reply:
            return [reply.status, reply.read(200).decode()]
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]
    except OSError as error:
        return [0, str(error)]
`;

/** What the last expression of the code gives. */
async function evaluate(session: Session, code: string): Promise<unknown> {
  const result = await session.run(code, { timeoutMs: 30_000 });
  if (result.status !== 'ok') throw new Error(`${result.status}: ${result.error?.traceback ?? result.error?.message}`);
  return result.value;
}

export interface Hosts {
  readonly plain: number;
  readonly secure: number;
  /** Listens, and is on no list. */
  readonly other: number;
}

/** Servers of the host's for all tests of a file. */
export function hosts(): Hosts {
  const ports = { plain: 0, secure: 0, other: 0 };
  const servers: Server[] = [];
  beforeAll(async () => {
    const folder = await scratchFolder();
    const [key, cert] = [join(folder, 'key'), join(folder, 'cert')];
    const subject = ['-subj', '/CN=cella.test', '-addext', `subjectAltName=IP:${HOST}`];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'];
    await run('openssl', ['req', '-x509', ...kind, '-keyout', key, '-out', cert, ...subject]);
    const answer: RequestListener = ({ url = '' }, response) => {
      response.end(url === '/large' ? Buffer.alloc(LARGE, 'x') : `hello ${url}`);
    };
    const tls = { key: await readFile(key), cert: await readFile(cert) };
    servers.push(createServer(answer), createTlsServer(tls, answer), createServer(answer));
    for (const server of servers) await once(server.listen(0, HOST), 'listening');
    [ports.plain = 0, ports.secure = 0, ports.other = 0] = servers.map((one) => (one.address() as AddressInfo).port);
  });
  afterAll(() => {
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
  });
  return ports;
}

const listOf = ({ plain, secure }: Hosts) => ({
  sandbox: { network: { allow: [`${HOST}:${plain}`, `${HOST}:${secure}`] } },
});

export async function reachesItsHosts(open: Open, ports: Hosts): Promise<void> {
  const session = await open(listOf(ports));
  const tried = await evaluate(
    session,
    `${FETCH}
import socket
def direct(port):
    try:
        socket.create_connection(('${HOST}', port), 5).close()
        return 'connected'
    except OSError as error:
        return type(error).__name__
[fetch('http://${HOST}:${ports.plain}/a?b=c'), fetch('http://${HOST}:${ports.other}/'), fetch('https://example.org/'), direct(${ports.plain})]`,
  );
  expect(tried).toEqual([
    [200, 'hello /a?b=c'],
    [403, expect.stringContaining(`refused the connection to ${HOST}:${ports.other}`)],
    [0, expect.stringContaining('403 Refused by Cella (not_listed)')],
    'ConnectionRefusedError',
  ]);
}

/** The next `count` hosts that a session tells it was kept from. */
export async function denials(session: Session, count: number): Promise<unknown[]> {
  const told: unknown[] = [];
  for await (const event of session.background()) {
    if (event.type !== 'network_denied') continue;
    told.push(event);
    if (told.length === count) break;
  }
  return told;
}

/** What differs from place to place in nothing but how the proxy is reached. */
export function useOfAList(open: Open, ports: Hosts): void {
  test('denied attempts are reported, each once', async () => {
    const session = await open(listOf(ports));
    const told = denials(session, 2);
    await evaluate(
      session,
      `${FETCH}\n[fetch('http://${HOST}:${ports.other}/') for _ in range(50)]; fetch('https://a.example/')`,
    );
    expect(await told).toEqual([
      { type: 'network_denied', host: HOST, port: ports.other, reason: 'port_not_listed' },
      { type: 'network_denied', host: 'a.example', port: 443, reason: 'not_listed', more: 49 },
    ]);
  });

  test('TLS works through a tunnel, end to end', async () => {
    const session = await open(listOf(ports));
    const code = `${FETCH}
import ssl
fetch('https://${HOST}:${ports.secure}/tls', context=ssl._create_unverified_context())`;
    expect(await evaluate(session, code)).toEqual([200, 'hello /tls']);
  });

  test('many connections at a time, and large answers, arrive completely', async () => {
    const session = await open(listOf(ports));
    const code = `${FETCH}
import concurrent.futures
def size(n):
    with urllib.request.urlopen('http://${HOST}:${ports.plain}/large', timeout=30) as reply:
        return len(reply.read())
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    sizes = list(pool.map(size, range(6)))
sizes`;
    expect(await evaluate(session, code)).toEqual(Array(6).fill(LARGE));
  });
}

export function attacksOnAList(open: Open, ports: Hosts): void {
  describe('hostile code', () => {
    test('that tries to end the forwarder cuts nobody off from the network, including itself', async () => {
      const session = await open(listOf(ports));
      const code = `${FETCH}
import os, signal
def end_others():
    for pid in os.listdir('/proc'):
        if pid.isdigit() and int(pid) not in (1, os.getpid()):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
def until_reached():
    while fetch('http://${HOST}:${ports.plain}/')[0] != 200:
        pass
    return 200
[end_others() or until_reached() for _ in range(4)]`;
      expect(await evaluate(session, code)).toEqual([200, 200, 200, 200]);
    });

    test('that floods its own proxy with silent and broken connections gets it back afterwards', async () => {
      const session = await open(listOf(ports));
      const code = `${FETCH}
import random, socket
held = [socket.create_connection(('127.0.0.1', 3128), 5) for _ in range(200)]
for one in held[::2]:
    one.sendall(random.randbytes(4096))
for one in held:
    one.close()
fetch('http://${HOST}:${ports.plain}/')`;
      expect(await evaluate(session, code)).toEqual([200, 'hello /']);
    });

    test('finds no way around the proxy, and no way to that of another session', async () => {
      const [session, other] = await Promise.all([
        open(listOf(ports)),
        open({ sandbox: { network: { allow: ['a.example'] } } }),
      ]);
      const code = `${FETCH}
import glob, os, socket
def attempt(work):
    try:
        return work() or 'done'
    except OSError as error:
        return error.strerror or str(error)
def raw(text):
    with socket.create_connection(('127.0.0.1', 3128), 5) as way:
        way.sendall(text.encode())
        return way.recv(4096).decode().split('\\r\\n')[0]
def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))
sockets = glob.glob('/cella/network/*') + glob.glob('/cella/connection/proxy')
[len(sockets), attempt(lambda: os.unlink(sockets[0])), attempt(lambda: os.rename(sockets[0], sockets[0] + '2')), attempt(udp),
 attempt(lambda: socket.create_connection(('169.254.169.254', 80), 5)),
 attempt(lambda: socket.getaddrinfo('example.org', 80)),
 [raw('CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (to, to)) for to in
  ('169.254.169.254:80', '[::ffff:127.0.0.2]:${ports.other}', '0x7f.2:${ports.plain}', 'u@${HOST}:${ports.plain}', '${HOST}.:${ports.other}')]]`;
      const refused = expect.stringMatching(/Read-only|Permission|not permitted/);
      expect(await evaluate(session, code)).toEqual([
        1,
        refused,
        refused,
        'Network is unreachable',
        'Network is unreachable',
        expect.any(String),
        [
          expect.stringContaining('403'),
          expect.stringContaining('403'),
          expect.stringContaining('400'),
          expect.stringContaining('400'),
          expect.stringContaining('403'),
        ],
      ]);
      expect(await evaluate(other, `${FETCH}\nfetch('http://${HOST}:${ports.plain}/')[0]`)).toBe(403);
    });
  });

  test('works after hibernation, in forks and after restoring checkpoints', async () => {
    const session = await open({ ...listOf(ports), agentKey: 'sleeper' });
    const look = `${FETCH}\nfetch('http://${HOST}:${ports.plain}/')[0]`;
    expect(await evaluate(session, look)).toBe(200);
    await session.run('x = 1', { transaction: 'rollback_always' });
    expect(await evaluate(session, look)).toBe(200);
    const fork = await session.fork({ agentKey: 'fork' });
    expect(await evaluate(fork, look)).toBe(200);
    await fork.close();
    await session.hibernate();
    expect(await evaluate(session, look)).toBe(200);
  });
}
