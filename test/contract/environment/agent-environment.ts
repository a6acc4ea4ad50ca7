/** What an sandbox for a coding agent must do and withstand, whichever executor it is of. */

import { once } from 'node:events';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import type { RunningProgram } from '../../../src/environments/kernel-host.ts';
import type { SessionOptions } from '../../../src/index.ts';
import type { AgentSandbox } from '../../../src/session/agent-sandbox.ts';
import {
  finish,
  heard,
  type OpenAgent,
  openAgent,
  openGateway,
  said,
  script,
} from '../../support/agents/agent-environment.ts';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';

/** `settings`: what makes a session one of this executor. `open`: a session with a kernel there. */
export function agentSandboxContract(settings: () => Promise<SessionOptions>, open: Open): void {
  let shared: Promise<AgentSandbox> | undefined;
  afterAll(async () => await (await shared)?.close());
  const openHere = async (options?: OpenAgent) => {
    const { session, ...rest } = options ?? {};
    const all = { session: { ...(await settings()), ...session }, ...rest };
    if (options) return await openAgent(all);
    // Where a test asks for nothing of its own, and leaves nothing behind.
    shared ??= openAgent({ ...all, lasting: true });
    return await shared;
  };
  describe('a program', () => programs(openHere));
  describe('is ended', () => endings(openHere));
  describe('the host', () => host(openHere));
  describe('beside a kernel', () => besideAKernel(openHere, settings, open));
}

type OpenHere = (options?: OpenAgent) => Promise<AgentSandbox>;

const TEN_MB = 10_000_000;

function programs(open: OpenHere): void {
  test('gets 10 MB on its input, and returns them', async () => {
    const sandbox = await open();
    const input = Buffer.alloc(TEN_MB, 'every byte of it, ').toString();
    const { stdout, code } = await finish(sandbox, { argv: ['cat'] }, input);
    expect(code).toBe(0);
    expect(stdout === input).toBe(true);
  });

  test('makes the host wait if it does not read, and stops that when it closes its input', async () => {
    const sandbox = await open();
    const late = `
process.on('SIGTERM', () => {
  let count = 0;
  process.stdin.on('data', (chunk) => { count += chunk.length; }).on('end', () => { console.log(count); process.exit(); });
});
setInterval(() => {}, 1000);
console.log('ready');`;
    const link = await sandbox.exec({ ...script(sandbox, late), env: {}, stdin: 'open' });
    await said(link, 'ready');
    let taken = false;
    const written = link.stdin?.write(Buffer.alloc(TEN_MB)).then(() => {
      taken = true;
    });
    link.stdin?.end();
    expect(await finish(sandbox, { argv: ['true'] })).toMatchObject({ code: 0 });
    expect(taken).toBe(false);
    link.kill({ graceMs: 30_000 });
    expect(await heard(link)).toMatchObject({ stdout: `ready\n${TEN_MB}\n`, code: 0 });
    await written;
    const deaf = await sandbox.exec({
      argv: ['sh', '-c', 'exec <&-; echo deaf; exec sleep 1000'],
      env: {},
      stdin: 'open',
    });
    await said(deaf, 'deaf');
    await deaf.stdin?.write(Buffer.alloc(TEN_MB));
    deaf.kill();
    await deaf.exited;
  });

  test('gets a closed input by default, and starts in the given folder', async () => {
    const sandbox = await open();
    const { paths } = sandbox;
    expect(await finish(sandbox, { argv: ['sh', '-c', 'cat; pwd'] })).toMatchObject({
      stdout: `${paths.workspace}\n`,
    });
    expect(await finish(sandbox, { argv: ['pwd'], cwd: paths.home })).toMatchObject({ stdout: `${paths.home}\n` });
    const nowhere = await finish(sandbox, { argv: ['pwd'], cwd: '/nowhere' });
    expect(nowhere).toMatchObject({ code: 127, problem: expect.stringContaining('No such file') });
  });

  test('finds Node, and cannot change the folders of programs', async () => {
    const sandbox = await open({ gateway: await openGateway() });
    const { app, node, runner, gateway } = sandbox.paths;
    const code = `
import { writeFileSync, rmSync } from 'node:fs';
const refused = [];
const attempt = (work) => { try { work(); } catch (error) { refused.push(error.code); } };
for (const place of ['${node}', '${runner}', '${gateway}', '${app}', '/cella']) attempt(() => writeFileSync(place + '/new', ''));
attempt(() => rmSync('${gateway}/socket'));
attempt(() => rmSync('${runner}/forward.mjs'));
console.log(process.execPath, process.version, refused.length);`;
    const { stdout } = await finish(sandbox, script(sandbox, code));
    expect(stdout).toBe(`${node}/node ${process.version} 7\n`);
  });

  test('is killed if it uses too much memory, with that reason; address space alone costs nothing', async () => {
    const sandbox = await open({ session: { limits: { memoryMb: 192 } } });
    const reserved = 'new WebAssembly.Memory({ initial: 1, maximum: 65536 }); console.log("lives");';
    expect(await finish(sandbox, script(sandbox, reserved))).toMatchObject({ stdout: 'lives\n', code: 0 });
    const greedy = 'const all = []; for (;;) all.push(Buffer.alloc(1 << 22, 1));';
    expect(await finish(sandbox, script(sandbox, greedy))).toMatchObject({ signal: 'SIGKILL', outOfMemory: true });
    expect(await finish(sandbox, { argv: ['echo', 'next'] })).toMatchObject({ stdout: 'next\n', outOfMemory: false });
  });

  test('is ended at its CPU limit, and is not started past the number of processes', async () => {
    const sandbox = await open({ session: { limits: { cpuSeconds: 1, processes: 32 } } });
    const python = (code: string) => finish(sandbox, { argv: ['python3', '-c', code] });
    expect(await python('while True: pass')).toMatchObject({ signal: 'SIGXCPU' });
    const { stdout } = await python(CROWD);
    expect(Number(stdout)).toBeGreaterThan(15);
    expect(Number(stdout)).toBeLessThan(32);
    expect(await finish(sandbox, { argv: ['echo', 'next'] })).toMatchObject({ stdout: 'next\n', code: 0 });
  });
}

/** As many children as there may be; then they go. */
const CROWD = `
import os, signal, time
pids = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        pids.append(pid)
except BlockingIOError:
    print(len(pids))
for pid in pids:
    os.kill(pid, signal.SIGKILL)`;

/** A child that heeds no SIGTERM, below a program that may. */
const FAMILY = (heed: string) => `
import { spawn } from 'node:child_process';
process.on('SIGTERM', () => { ${heed} });
const child = spawn('sh', ['-c', 'trap "" TERM; echo ready; while :; do sleep 0.05; done'], { stdio: 'inherit', detached: true });
setInterval(() => {}, 1000);`;

const LIVING = 'set -- /proc/[0-9]*; echo $#';

function endings(open: OpenHere): void {
  const begin = async (sandbox: AgentSandbox, heed: string): Promise<RunningProgram> => {
    const link = await sandbox.exec({ ...script(sandbox, FAMILY(heed)), env: {} });
    await said(link, 'ready');
    return link;
  };
  /** Pid 1, whoever stands over the command that looks, and that. */
  const living = async (sandbox: AgentSandbox) =>
    Number((await finish(sandbox, { argv: ['sh', '-c', LIVING] })).stdout);

  test('with all processes that it started: on request, at its timeout, or at once', async () => {
    const sandbox = await open();
    const alone = await living(sandbox);
    const gentle = await begin(sandbox, 'process.exit(7);');
    gentle.kill({ graceMs: 60_000 });
    expect(await gentle.exited).toMatchObject({ code: 7 });
    const stubborn = await begin(sandbox, '');
    stubborn.kill({ graceMs: 50 });
    expect(await stubborn.exited).toMatchObject({ signal: 'SIGKILL' });
    const cut = await begin(sandbox, '');
    cut.kill();
    expect(await cut.exited).toMatchObject({ signal: 'SIGKILL' });
    expect(await living(sandbox)).toBeLessThanOrEqual(alone);
  });

  test('and leaves nothing, even if it has killed or stopped its monitor', async () => {
    const sandbox = await open();
    const alone = await living(sandbox);
    const orphan = 'trap "" TERM HUP; setsid sleep 1000 & kill -KILL $PPID; sleep 1000';
    expect(await finish(sandbox, { argv: ['sh', '-c', orphan] })).toMatchObject({ signal: 'SIGKILL' });
    const stopper = await sandbox.exec({
      argv: ['sh', '-c', 'kill -STOP $PPID; echo ready; while :; do kill -STOP $PPID; done'],
      env: {},
    });
    await said(stopper, 'ready');
    stopper.kill();
    expect(await stopper.exited).toMatchObject({ signal: 'SIGKILL' });
    expect(await living(sandbox)).toBeLessThanOrEqual(alone);
  });

  test('with its sandbox', async () => {
    const sandbox = await open({});
    const link = await begin(sandbox, '');
    await sandbox.close();
    expect(await link.exited).toMatchObject({ environmentEnded: expect.any(String) });
    expect(sandbox.alive).toBe(false);
  });
}

function host(open: OpenHere): void {
  test('is out of reach, except for the one socket to the gateway', async () => {
    const tcp = createServer((socket) => socket.end('host'));
    tcp.listen(0, '0.0.0.0');
    await once(tcp, 'listening');
    onTestFinished(() => void tcp.close());
    const { port } = tcp.address() as AddressInfo;
    const addresses = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
    const [gateway, anothers] = [await openGateway(), await openGateway()];
    const sandbox = await open({ gateway });
    const places = [
      { path: `${sandbox.paths.gateway}/socket` },
      { path: `${anothers}/socket` },
      { path: `${gateway}/socket` },
      ...addresses.map((address) => ({ host: address, port })),
    ];
    const code = `
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { text } from 'node:stream/consumers';
const tries = JSON.parse(process.argv[1]).map((place) => text(connect(place)).catch(() => 'refused'));
console.log(JSON.stringify([Object.keys(networkInterfaces()), ...(await Promise.all(tries))]));`;
    const { argv } = script(sandbox, code);
    const { stdout } = await finish(sandbox, { argv: [...argv, JSON.stringify(places)] });
    const refused = places.slice(1).map(() => 'refused');
    expect(JSON.parse(stdout)).toEqual([['lo'], 'gateway', ...refused]);
  });

  test('allows only listed hosts, through its proxy, and reports every other', async () => {
    const web = createHttpServer((_request, response) => response.end('listed')).listen(0, '127.0.0.1');
    await once(web, 'listening');
    onTestFinished(() => void web.close());
    const { port } = web.address() as AddressInfo;
    const denied: unknown[] = [];
    const session = { sandbox: { network: { allow: [`127.0.0.1:${port}`] } } };
    const sandbox = await open({ session, onDenied: (attempt) => denied.push(attempt) });
    const code = `
import os, urllib.error, urllib.request
os.environ.pop('NO_PROXY', None), os.environ.pop('no_proxy', None)
for url in ('http://127.0.0.1:${port}/', 'http://other.example/'):
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)`;
    expect(await finish(sandbox, { argv: ['python3', '-c', code] })).toMatchObject({ stdout: 'listed\n403\n' });
    await expect
      .poll(() => denied, { timeout: 20_000 })
      .toMatchObject([{ host: 'other.example', port: 80, reason: 'not_listed' }]);
  });

  test('passes on none of its environment', async () => {
    process.env.CELLA_TEST_SECRET = 'hush-hush';
    onTestFinished(() => {
      delete process.env.CELLA_TEST_SECRET;
    });
    const sandbox = await open();
    const all = 'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\\\0" "\\\\n"';
    const { stdout } = await finish(sandbox, { argv: ['sh', '-c', all], env: { ONLY: 'this one' } });
    expect(stdout).toContain('ONLY=this one');
    expect(stdout).toContain(`HOME=${sandbox.paths.home}`);
    expect(stdout).not.toContain('hush-hush');
  });
}

function besideAKernel(openHere: OpenHere, settings: () => Promise<SessionOptions>, open: Open): void {
  test('shares files and user with the kernel, and has a gateway that the kernel does not see', async () => {
    const [dataDir, cwd] = [await scratchFolder(), await scratchFolder()];
    await chmod(cwd, 0o777);
    const same = { ...(await settings()), dataDir, agentKey: 'both' };
    const gateway = await openGateway();
    const session = await open(same);
    const sandbox = await openHere({ session: same, gateway });
    const look = `
import os
open('from-kernel', 'w').write('kernel')
[os.getuid(), os.path.exists('/cella/gateway'), os.path.exists('/cella/app'), os.path.exists('${gateway}')]`;
    const { value } = await session.run(look);
    expect(value).toEqual([expect.any(Number), false, false, false]);
    const { stdout } = await finish(sandbox, {
      argv: ['sh', '-c', 'id -u; cat from-kernel; echo agent > from-agent'],
    });
    expect(stdout).toBe(`${Array.isArray(value) ? value[0] : value}\nkernel`);
    expect(sandbox.onHost.workspace).toBe(session.cwd);
    expect(await readFile(join(session.cwd, 'from-agent'), 'utf8')).toBe('agent\n');
    expect((await session.run("open('from-agent').read()")).value).toBe('agent\n');
    await writeFile(join(cwd, 'from-host'), 'host', { mode: 0o644 });
    const elsewhere = await openHere({ session: { ...same, cwd } });
    const there = await finish(elsewhere, { argv: ['sh', '-c', 'pwd; cat from-host; echo agent > from-agent'] });
    expect(there.stdout).toBe(`${cwd}\nhost`);
    expect(await readFile(join(cwd, 'from-agent'), 'utf8')).toBe('agent\n');
  });
}
