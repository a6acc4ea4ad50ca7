/** Ways to sockets of the host, and to the template's own. */

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { attempts, python, succeeded } from '../support/kernels/attack-code.ts';
import { type Open, scratchFolder } from '../support/kernels/session.ts';
import { templatesOf } from '../support/processes/processes.ts';

async function listening(server: Server, where: { port: number; host: string } | string): Promise<() => number> {
  let connections = 0;
  server.on('connection', (socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(where);
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
  });
  return () => connections;
}

export function socketsOfTheHost(open: Open): void {
  test('TCP, UDP, abstract and named Unix sockets are out of reach', async () => {
    const folder = await scratchFolder();
    const tcp = createServer();
    const addresses = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
    const name = `cella-test-${process.pid}-${Math.random()}`;
    const counts = [
      await listening(tcp, { port: 0, host: '0.0.0.0' }),
      await listening(createServer(), `\0${name}`),
      await listening(createServer(), join(folder, 'socket')),
    ];
    const udp = createSocket('udp4');
    udp.bind(0, '0.0.0.0');
    await once(udp, 'listening');
    onTestFinished(() => {
      udp.close();
    });
    const { port } = tcp.address() as AddressInfo;
    const session = await open();
    const verdicts = await attempts(
      session,
      `
verdicts = {}
for address in ${python(addresses)}:
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tcp:
        tcp.settimeout(2)
        verdicts['tcp ' + address] = attempt(tcp.connect, (address, ${port}))
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        attempt(udp.sendto, b'from the sandbox', (address, ${udp.address().port}))
for path in (b'\\0' + ${python(name)}.encode(), ${python(join(folder, 'socket'))}):
    with socket.socket(socket.AF_UNIX) as unix:
        verdicts['unix %r' % path] = attempt(unix.connect, path)
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
    tcp.settimeout(2)
    verdicts['a routed address'] = attempt(tcp.connect, ('192.0.2.1', 80))
verdicts['interfaces'] = str([name for _, name in socket.if_nameindex()])
verdicts`,
    );
    const { interfaces, ...connections } = verdicts;
    expect(succeeded(connections)).toEqual({});
    expect(connections['a routed address']).toBe('ENETUNREACH');
    expect(interfaces).toContain("'lo'");
    expect(counts.map((count) => count())).toEqual([0, 0, 0]);
    // Datagrams arrive in order: the first one to come is the host's own.
    const received = once(udp, 'message');
    udp.send('from the host', udp.address().port, '127.0.0.1');
    expect(String((await received)[0])).toBe('from the host');
  });

  test('socket families that ignore network namespaces are refused', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
families = {'vsock': 40, 'packet': 17, 'alg': 38, 'bluetooth': 31, 'can': 29, 'tipc': 30, 'xdp': 44, 'key': 15, 'rds': 21}
verdicts = {name: attempt(lambda: socket.socket(family, socket.SOCK_DGRAM).close()) for name, family in families.items()}
verdicts.update(('pair of ' + name, attempt(lambda: [one.close() for one in socket.socketpair(family, socket.SOCK_DGRAM)])) for name, family in families.items())
verdicts['raw'] = attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
    expect(verdicts).toMatchObject({ vsock: 'EAFNOSUPPORT', packet: 'EAFNOSUPPORT', alg: 'EAFNOSUPPORT' });
  });

  test("loopback works between a kernel's own processes", async () => {
    const session = await open();
    const result = await session.run(`
import os, socket
server = socket.create_server(('127.0.0.1', 0))
if os.fork() == 0:
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(b'hello')
    os._exit(0)
connection, _ = server.accept()
connection.recv(16).decode()`);
    expect(result.value).toBe('hello');
  });
}

export function socketOfTheTemplate(open: Open): void {
  test("the template's socket answers only the host, even if a workspace contains it", async () => {
    await open();
    const [template] = templatesOf(process.pid);
    const session = await open({ cwd: template?.folder ?? '' });
    const verdicts = await attempts(
      session,
      `
body = b'{"id": "mine", "network": "host"}'
def start():
    with socket.socket(socket.AF_UNIX) as template:
        template.settimeout(10)
        template.connect('template')
        template.sendall(struct.pack('<IBI', len(body), ord('O'), 0) + body)
        return template.recv(100) or 'nothing'
answer = attempt(start)
{'there': str(os.path.exists('template')), 'answer': answer}`,
    );
    expect(verdicts.there).toBe('True');
    expect(['ECONNRESET', 'EPIPE', "done: 'nothing'"]).toContain(verdicts.answer);
    expect((await (await open()).run('1')).value).toBe(1);
  });
}
