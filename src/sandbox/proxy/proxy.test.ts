import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isPrivateAddress } from './allow-list.ts';
import { DenialReports, type DeniedAttempt, NetworkProxy } from './proxy.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-proxy-'));
const socketPath = join(folder, 'proxy');
const denied: DeniedAttempt[] = [];
const seen: IncomingMessage[] = [];
/** The addresses of names. `turning.example` has another address after the first lookup. */
const names: Record<string, readonly string[]> = {
  'far.example': ['127.0.0.2'],
  'own.example': ['127.0.0.1'],
  'mixed.example': ['93.184.216.34', '10.0.0.1'],
  'mapped.example': ['::ffff:10.0.0.1'],
  'link.example': ['fe80::1%eth0'],
  'meta.example': ['169.254.169.254'],
  'sub.wild.example': ['127.0.0.2'],
};
let lookups = 0;
/** Functions that end the lookups of `*.silent.example`. */
const silent: (() => void)[] = [];
let proxy: NetworkProxy;
let target: Server;
let port: number;

beforeAll(async () => {
  target = createServer((message, response) => {
    seen.push(message);
    response.setHeader('X-Answer', 'yes');
    response.setHeader('Keep-Alive', 'timeout=99');
    if (message.method === 'GET') response.end('hello');
    else if (message.url === '/full') response.writeHead(413).end('too much');
    else message.pipe(response);
  });
  target.listen(0, '127.0.0.2');
  await once(target, 'listening');
  ({ port } = target.address() as AddressInfo);
  proxy = await NetworkProxy.open({
    allow: [
      `127.0.0.2:${port}`,
      ...Object.keys(names).map((name) => `${name}:${port}`),
      `*.wild.example:${port}`,
      `*.silent.example:${port}`,
      `turning.example:${port}`,
      `nowhere.example:${port}`,
      'usual.example',
    ],
    folder,
    limits: { connections: 8, headersMs: 300, lookups: 2, resolveMs: 300 },
    resolve: async (name) => {
      if (name === 'turning.example') return lookups++ === 0 ? ['127.0.0.2'] : ['127.0.0.1'];
      if (name.endsWith('.silent.example')) return await new Promise((answer) => silent.push(() => answer([])));
      const found = names[name];
      if (!found) throw new Error('no such name');
      return found;
    },
  });
  proxy.onDenied = (attempt) => denied.push(attempt);
});

afterAll(() => {
  proxy.close();
  target.close();
  rmSync(folder, { recursive: true });
});

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly message: IncomingMessage;
}

async function ask(path: string, headers: Record<string, string> = {}, body?: string, method = 'GET'): Promise<Reply> {
  const host = /^http:\/\/([^/]*)/.exec(path)?.[1] ?? 'x';
  const sent = request({ socketPath, path, method, headers: { host, ...headers }, agent: false });
  sent.end(body);
  const [message] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of message) text += chunk;
  return { status: message.statusCode ?? 0, text, message };
}

/** Everything that the proxy sends for these bytes until it closes the connection. */
async function raw(bytes: string): Promise<string> {
  const socket = connect(socketPath);
  socket.write(bytes);
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

describe('a request', () => {
  it('reaches a listed address unchanged, except for headers of the connection', async () => {
    const headers = {
      'X-Mine': 'a',
      Connection: 'X-Hop',
      'X-Hop': 'b',
      'Proxy-Authorization': 'Basic x',
      TE: 'trailers',
    };
    const { status, text, message } = await ask(`http://127.0.0.2:${port}/a%20b?c=d`, headers);
    expect([status, text, message.headers['x-answer']]).toEqual([200, 'hello', 'yes']);
    const got = seen.at(-1);
    expect(got?.url).toBe('/a%20b?c=d');
    expect(got?.headers).toEqual({ host: `127.0.0.2:${port}`, 'x-mine': 'a', connection: 'close' });
    expect(message.headers['keep-alive']).not.toBe('timeout=99');
  });

  it('with a body arrives completely, in both encodings', async () => {
    const body = 'x'.repeat(300_000);
    expect((await ask(`http://127.0.0.2:${port}/`, {}, body, 'POST')).text).toHaveLength(body.length);
    const length = String(body.length);
    expect((await ask(`http://127.0.0.2:${port}/`, { 'Content-Length': length }, body, 'PUT')).text).toHaveLength(
      body.length,
    );
  });

  it('gets the host’s response, even if the host has not read all of it', async () => {
    const { status, text } = await ask(`http://127.0.0.2:${port}/full`, {}, 'x'.repeat(10_000), 'POST');
    expect([status, text]).toEqual([413, 'too much']);
  });

  it('is refused with a reason, and reported, if the list does not name its host', async () => {
    const { status, text } = await ask('http://other.example/');
    expect(status).toBe(403);
    expect(text).toContain('refused the connection to other.example:80');
    expect(denied).toContainEqual({ host: 'other.example', port: 80, reason: 'not_listed' });
  });

  it.each([
    ['a port that is not named', `usual.example:${1}`, 'port_not_listed'],
    ['another address', '127.0.0.1:80', 'not_listed'],
    ['the mapped form of an address', `[::ffff:127.0.0.1]:80`, 'not_listed'],
    ['a subdomain of a name', 'a.far.example', 'not_listed'],
    ['more than one label for a wildcard', 'deep.sub.wild.example', 'not_listed'],
    ['a name that only ends the same', 'notwild.example', 'not_listed'],
  ])('to %s is refused', async (_what, host, reason) => {
    const { status, text } = await ask(`http://${host}/`);
    expect([status, text]).toEqual([403, expect.stringContaining(`(${reason})`)]);
  });

  it.each(['own', 'mixed', 'mapped', 'link', 'meta'])('to a name of this machine is refused: %s', async (name) => {
    const { status, text } = await ask(`http://${name}.example:${port}/`);
    expect([status, text]).toEqual([403, expect.stringContaining('(private_address)')]);
  });

  it('to a name reaches a private address that is also listed, by the name in any spelling', async () => {
    expect((await ask(`http://FAR.example.:${port}/`)).text).toBe('hello');
    expect(seen.at(-1)?.headers.host).toBe(`far.example:${port}`);
    expect((await ask(`http://sub.wild.example:${port}/`)).text).toBe('hello');
  });

  it('uses the checked address, and resolves a name once', async () => {
    expect((await ask(`http://turning.example:${port}/`)).text).toBe('hello');
    expect(lookups).toBe(1);
    expect((await ask(`http://turning.example:${port}/`)).status).toBe(403);
  });

  it('to an unknown name fails, and is not a denial', async () => {
    const before = denied.length;
    expect((await ask(`http://nowhere.example:${port}/`)).status).toBe(502);
    expect(denied).toHaveLength(before);
  });

  it.each([
    'https://far.example/',
    '/etc/passwd',
    'http://user:pw@far.example/',
    'http://far.example\\@evil/',
    'http://0x7f.1/',
    'http://127.1/',
    'http://2130706433/',
    'http:///x',
    'ftp://far.example/',
  ])('for %s is not forwarded', async (path) => {
    expect((await ask(path)).status).toBe(400);
  });

  it('whose Host header names another host is not forwarded', async () => {
    const { status, text } = await ask(`http://127.0.0.2:${port}/`, { host: 'other.example' });
    expect([status, text]).toEqual([400, expect.stringContaining('Host header')]);
  });
});

describe('bytes that could be two requests', () => {
  const line = () => `POST http://127.0.0.2:${port}/ HTTP/1.1\r\nHost: 127.0.0.2:${port}\r\n`;
  it.each([
    ['both lengths', 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde'],
    ['an odd coding', 'Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['a coding twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a length called hop-by-hop', 'Connection: Content-Length\r\nContent-Length: 4\r\n\r\nabcd'],
    ['a second host', 'Host: other.example\r\n\r\n'],
    ['a second host behind many headers', `${'a:\r\n'.repeat(2500)}Host: other.example\r\n\r\n`],
    ['a bare line feed in a header', 'X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a folded header', 'X: a\r\n b\r\nContent-Length : 3\r\n\r\nabc'],
    ['a null byte', 'X: a\0b\r\n\r\n'],
    ['too many bytes of headers', `X: ${'a'.repeat(20_000)}\r\n\r\n`],
  ])('%s: nothing is passed on', async (_what, rest) => {
    const before = seen.length;
    expect(await raw(line() + rest)).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(seen).toHaveLength(before);
  });
});

describe('a tunnel', () => {
  it('forwards bytes in both directions, and the end of each', async () => {
    const echo = createTcpServer({ allowHalfOpen: true }, (socket) => void socket.pipe(socket)).listen(0, '127.0.0.3');
    await once(echo, 'listening');
    const to = `127.0.0.3:${(echo.address() as AddressInfo).port}`;
    const inner = mkdtempSync(join(tmpdir(), 'cella-proxy-'));
    const tunnels = await NetworkProxy.open({ allow: [to], folder: inner });
    const body = Buffer.alloc(2_000_000, 'x');
    const socket = connect(join(inner, 'proxy'));
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
    socket.end(body);
    const parts: Buffer[] = [];
    for await (const chunk of socket) parts.push(chunk);
    const all = Buffer.concat(parts);
    const head = 'HTTP/1.1 200 Connection established\r\n\r\n';
    expect(all.toString('latin1', 0, head.length)).toBe(head);
    expect(all.length - head.length).toBe(body.length);
    tunnels.close();
    echo.close();
    rmSync(inner, { recursive: true });
  });

  it.each([
    ['a host that is not named', 'other.example:443', 403],
    ['the machine itself', '127.0.0.1:22', 403],
    ['an address in disguise', '[::ffff:127.0.0.1]:22', 403],
    ['no port', 'far.example', 400],
    ['a user', `u@far.example:${443}`, 400],
    ['an odd address', '0x7f.1:443', 400],
    ['a URL', 'http://far.example:443', 400],
  ])('to %s is refused', async (_what, to, status) => {
    expect(await raw(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  it('whose Host header names another host is refused', async () => {
    const bytes = `CONNECT far.example:${port} HTTP/1.1\r\nHost: other.example\r\n\r\n`;
    expect(await raw(bytes)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('floods', () => {
  it('of silent connections are cut off, and the next request works', async () => {
    const idle = Array.from({ length: 8 }, () => connect(socketPath));
    await Promise.all(idle.map((socket) => once(socket, 'connect')));
    const beyond = connect(socketPath).on('error', () => {});
    await once(beyond, 'close');
    // All of them are closed, because they send nothing.
    await Promise.all(idle.map((socket: Socket) => once(socket.on('error', () => {}).resume(), 'close')));
    expect((await ask(`http://127.0.0.2:${port}/`)).text).toBe('hello');
  });

  it('of names that nobody resolves are looked up a few at a time, and more are refused', async () => {
    const names = Array.from({ length: 5 }, (_, n) => `http://n${n}.silent.example:${port}/`);
    const replies = await Promise.all(names.map((name) => ask(name)));
    expect(replies.map(({ status }) => status).sort()).toEqual([502, 502, 503, 503, 503]);
    expect(silent).toHaveLength(2);
    // These lookups still run, although their callers have gone.
    const { status, text } = await ask(`http://far.example:${port}/`);
    expect([status, text]).toEqual([503, expect.stringContaining('(too_many_lookups)')]);
    const waiting = ask(`http://far.example:${port}/`);
    for (const answer of silent) answer();
    expect((await waiting).text).toBe('hello');
    expect(silent).toHaveLength(2);
  });

  it('of such names leave a thread for other lookups', async () => {
    // The default is one lookup at a time for a proxy: the system makes two at a time, for all sessions together.
    const looked: string[] = [];
    const resolve = (name: string) => {
      looked.push(name);
      return new Promise<never>(() => {});
    };
    const own = mkdtempSync(join(tmpdir(), 'cella-proxy-'));
    const usual = await NetworkProxy.open({ allow: ['*.silent.example'], folder: own, resolve });
    const begin = (name: string) =>
      request({ socketPath: join(own, 'proxy'), path: `http://${name}/`, headers: { host: name }, agent: false }).end();
    try {
      for (const name of ['a.silent.example', 'b.silent.example']) begin(name).on('error', () => {});
      await once(begin('denied.example'), 'response');
      expect(looked).toHaveLength(1);
    } finally {
      usual.close();
      rmSync(own, { recursive: true });
    }
  });

  it('of denied attempts are reported a few times, with their number', () => {
    const denials = new DenialReports();
    const one = { host: 'a.example', port: 80, reason: 'not_listed' };
    expect(denials.note(one, 0)).toEqual(one);
    for (let n = 0; n < 99; n++) expect(denials.note(one, n)).toBeUndefined();
    expect(denials.note(one, 61_000)).toEqual({ ...one, more: 99 });
    const reports = Array.from({ length: 500 }, (_, n) => denials.note({ ...one, host: `${n}.example` }, 61_000));
    expect(reports.filter((each) => each !== undefined)).toHaveLength(19);
    expect(denials.note({ ...one, host: 'ü\n\u001b[2J' }, 200_000)?.host).toBe('???[2J');
  });
});

it.each([
  ['127.0.0.1', true],
  ['10.1.2.3', true],
  ['172.31.255.255', true],
  ['192.168.0.1', true],
  ['169.254.169.254', true],
  ['100.100.100.200', true],
  ['168.63.129.16', true],
  ['0.0.0.0', true],
  ['224.0.0.1', true],
  ['255.255.255.255', true],
  ['::', true],
  ['::1', true],
  ['fe80::1', true],
  ['fc00::1', true],
  ['fd00:ec2::254', true],
  ['ff02::1', true],
  ['64:ff9b::7f00:1', true],
  ['2002:7f00:1::', true],
  ['2001::1', true],
  ['93.184.216.34', false],
  ['172.32.0.1', false],
  ['2606:2800:220:1:248:1893:25c8:1946', false],
])('the address %s is private: %s', (address, isPrivate) => {
  expect(isPrivateAddress(address)).toBe(isPrivate);
});
