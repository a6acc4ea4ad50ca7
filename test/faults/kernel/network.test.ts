/** The network of a sandbox that is a list of hosts, on the host that these tests run on. */

import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { kinds } from '../../escape/kernel-origins.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { startHost, untilPrinted } from '../../support/kernels/host-processes.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { attacksOnAList, hosts, reachesItsHosts, useOfAList } from './network.ts';

const ports = hosts();

test.each(kinds)('%s reaches only the hosts on its list', (_name, open) => reachesItsHosts(open, ports));

test('only sessions that request the host’s network get it', async () => {
  const code = `
import os, urllib.request
def fetch():
    try:
        return urllib.request.urlopen('http://127.0.0.2:${ports.plain}/', timeout=20).read().decode()
    except OSError as error:
        return type(error.reason).__name__
[fetch(), os.readlink('/proc/self/ns/net')]`;
  const [host, alone] = [await openSession({ sandbox: { network: 'host' } }), await openSession()];
  const own = readlinkSync('/proc/self/ns/net');
  expect((await host.run(code)).value).toEqual(['hello /', own]);
  const [fetched, namespace] = (await alone.run(code)).value as [string, string];
  expect(fetched).toBe('ConnectionRefusedError');
  expect(namespace).not.toBe(own);
});

describe('a list of hosts', () => {
  useOfAList(openSession, ports);
  attacksOnAList(openSession, ports);
});

test('starts another forwarder for the next connection if it was killed', async () => {
  const session = await openSession({ sandbox: { network: { allow: [`127.0.0.2:${ports.plain}`] } } });
  const code = `
import os, urllib.request
[os.getpid(), urllib.request.urlopen('http://127.0.0.2:${ports.plain}/', timeout=20).read().decode()]`;
  const look = async () => (await session.run(code)).value as [number, string];
  const [kernel] = await look();
  const forwarders = childrenOf(session.pid).filter((pid) => innerPid(pid) !== kernel);
  expect(forwarders).toHaveLength(1);
  const [forwarder = 0] = forwarders;
  process.kill(forwarder, 'SIGKILL');
  await eventually(
    () => existsSync(`/proc/${forwarder}`),
    (there) => !there,
    5000,
  );
  expect(await look()).toEqual([kernel, 'hello /']);
});

test('leaves nothing behind when its session, or its host, has ended', async () => {
  const tmpDir = await scratchFolder();
  const options = { dataDir: await scratchFolder(), sandbox: { network: { allow: ['example.org'] } } };
  const code = "print('ready', flush=True); import time; time.sleep(60)";
  const host = startHost({ sessions: [options], code }, { tmpDir });
  await untilPrinted(host, 'ready');
  const [template = ''] = readdirSync(tmpDir).filter((name) => name.startsWith('cella-'));
  expect(readdirSync(join(tmpDir, template)).filter((name) => name.startsWith('network-'))).toHaveLength(1);
  host.kill('SIGKILL');
  await eventually(
    () => readdirSync(tmpDir),
    (names) => names.length === 0,
    10_000,
  );
});

test('is refused if nothing could enforce it', async () => {
  const sandbox = { network: { allow: ['example.org'] } };
  await expect(openSession({ executor: 'in-process', sandbox })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
});

function childrenOf(parent: number): number[] {
  return readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ').map(Number);
}

/** Its number in its own namespace. */
function innerPid(pid: number): number {
  const line = /^NSpid:(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
  return Number(line.trim().split(/\s+/).at(-1));
}
