/** `cella serve` in the background, its status and its end, its config file, and `npm start`. */

import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../src/client/index.ts';
import { resolveServerConfig } from '../../src/settings/server-config.ts';
import { FileStorage } from '../../src/storage/file/file-storage.ts';
import { runCella } from '../support/cli/cli-here.ts';
import { Cella, Started } from '../support/cli/command.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { Served } from '../support/servers/serve-process.ts';
import { TestServer } from '../support/servers/server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const cella = new Cella();
const pids = new Set<number>();

afterAll(async () => {
  for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  cella[Symbol.dispose]();
});

const inData = (name: string) => join(cella.dataDir, name);
const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

const here = (...words: string[]) => runCella(words, { CELLA_DATA_DIR: cella.dataDir });

async function status(): Promise<{ code: unknown; told: Record<string, unknown> }> {
  const { code, out } = await here('serve', 'status', '--json');
  return { code, told: JSON.parse(out) };
}

/** In the background, from a terminal that is gone when this resolves. */
async function detached(): Promise<{ out: string; pid: number; url: string }> {
  const { code, out } = await cella.run(['serve', '--detach', '--port', '0'], { terminal: true });
  expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('The first cell') });
  const pid = Number(/process (\d+)/.exec(out)?.[1]);
  pids.add(pid);
  return { out, pid, url: / at (http:\S+)/.exec(out)?.[1] ?? '' };
}

describe('cella serve --detach', () => {
  let first: Awaited<ReturnType<typeof detached>>;
  beforeAll(async () => {
    writeFileSync(inData('config.yaml'), 'max-kernels: 3\nlog-level: debug\nport: 1\n');
    first = await detached();
  });

  it('gives the advice of the command line if another program has the port', async () => {
    const other = join(cella.dataDir, 'other');
    const words = ['serve', '--detach', '--port', new URL(first.url).port, '--data', other];
    const { code, err } = await cella.run(words);
    expect([code, err]).toEqual([2, expect.stringMatching(/another program uses it\..*\nCorrect it; --help/)]);
  });

  it('keeps running without its terminal, and prints a link that is not in its log', async () => {
    const link = /once: +(\S+)/.exec(first.out)?.[1] ?? '';
    expect((await fetch(link, { method: 'POST', redirect: 'manual' })).status).toBe(303);
    expect(statSync(inData('daemon.log')).mode & 0o777).toBe(0o600);
    const log = () => readFileSync(inData('daemon.log'), 'utf8');
    // Lines are written a moment after they were made, those of the login with them.
    await expect.poll(log, { timeout: 30_000 }).toMatch(/"serving"[\s\S]*\/login/);
    expect(log()).not.toContain(link.split('code=')[1]);
  });

  it('uses the config file if there is no flag, and variables over the file', async () => {
    expect(await status()).toMatchObject({
      code: 0,
      told: {
        running: true,
        pid: first.pid,
        url: first.url,
        storage: 'file',
        kernels: { live: 0, most: 3 },
        sessions: 0,
      },
    });
    const { out } = await here('serve', 'status');
    expect(out).toMatch(new RegExp(`^state +running\naddress +${first.url}\n`));
    writeFileSync(inData('other.yaml'), 'max-kernel: 3\n');
    const wrong = await cella.run(['serve', 'status'], { env: { CELLA_CONFIG: inData('other.yaml') } });
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('did you mean max-kernels?') });
  });

  it('says which server runs if a second one starts, and what to do about a port in use', async () => {
    const second = await cella.run(['serve', '--detach', '--port', '0']);
    expect(second).toMatchObject({ code: 1, err: expect.stringContaining(`at ${first.url}: process ${first.pid}`) });
    expect(second.err).toContain(`\`cella serve stop --data ${cella.dataDir}\``);
    const elsewhere = await cella.run(['serve', '--detach', '--port', '0', '--data', inData('other')]);
    expect(elsewhere.out).toContain(`Stop it with \`cella serve stop --data ${inData('other')}\`.`);
    expect(await cella.run(['serve', 'stop', '--data', inData('other')])).toMatchObject({ code: 0 });
    using other = new Cella();
    const port = new URL(first.url).port;
    const taken = await other.run(['serve', '--port', port]);
    expect(taken).toMatchObject({ code: 2, err: expect.stringContaining('choose another port with --port') });
  });

  it('starts again after the server was killed', async () => {
    process.kill(first.pid, 'SIGKILL');
    await expect.poll(() => isAlive(first.pid), { timeout: 10_000 }).toBe(false);
    expect(existsSync(inData('daemon.json'))).toBe(true);
    expect(await status()).toEqual({ code: 3, told: { running: false, dataDir: cella.dataDir } });
    const { code, out } = await here('serve', 'stop');
    expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining('No server runs on') });
    const { pid } = await detached();
    expect(await status()).toMatchObject({ code: 0, told: { pid } });
    process.kill(pid, 'SIGSTOP');
    expect(await status()).toMatchObject({ code: 1, told: { answers: false, pid } });
    process.kill(pid, 'SIGCONT');
  });

  it('stops on request, and at once with --now', async () => {
    const { pid } = (await status()).told;
    await using client = await connect({ socket: inData('daemon.sock') });
    await expect(client.server.stop({ pid: Number(pid) + 1 })).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
    const session = await client.open({ agentKey: 'long' });
    const running = session.stream('import time\nprint("go")\ntime.sleep(600)');
    for await (const event of running) if (event.type === 'stdout') break;
    const waiting = await here('serve', 'stop', '--timeout', '3.5');
    expect(waiting).toMatchObject({ code: 1, err: expect.stringContaining(`Process ${pid}`) });
    expect(waiting.err.match(/^Waiting.*$/gm)).toEqual(['Waiting for the end: 1 execution running']);
    expect(await status()).toMatchObject({ code: 0, told: { draining: true } });
    const { code, out } = await cella.run(['serve', 'stop', '--now']);
    expect({ code, out }).toEqual({ code: 0, out: `Process ${pid} has ended.\n` });
    await expect.poll(() => isAlive(Number(pid)), { timeout: 10_000 }).toBe(false);
    for (const left of ['daemon.sock', 'daemon.json']) expect(existsSync(inData(left))).toBe(false);
    expect((await status()).code).toBe(3);
  });

  it('says why it could not start', async () => {
    using other = new Cella();
    const refused = await other.run(['serve', '--detach', '--port', '0', '--host', '192.0.2.1', '--insecure-http']);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('this machine has no such address') });
    writeFileSync(join(other.dataDir, 'config.yaml'), 'tls-cert: here.pem\n');
    const half = await other.run(['serve', '--detach', '--port', '0']);
    expect(half).toMatchObject({ code: 2, err: expect.stringContaining('--tls-key') });
  });
});

it('serves on a machine without a Python, and says what to install, as doctor does', async () => {
  using bare = new Cella();
  const env = { PATH: bare.temporary, CELLA_PYTHON: undefined };
  const problem = `There is no python3 on PATH (${bare.temporary}).`;
  const install = 'Install Python 3.9 or later';
  await using served = await Served.start(bare, [], { env });
  await expect
    .poll(() => served.started.err, { timeout: 10_000 })
    .toContain(`${problem} Sandboxed kernels cannot start`);
  expect(served.started.err).toContain(install);
  const { code, out } = await bare.run(['doctor', '--json'], { env });
  const subprocess = expect.objectContaining({ name: 'subprocess', fix: expect.stringContaining(install) });
  expect({ code, ...JSON.parse(out) }).toMatchObject({ code: 1, ok: false, problem });
  expect(JSON.parse(out).executors).toContainEqual(subprocess);
});

it('creates nothing in a folder that no server has used', async () => {
  const folder = await scratchFolder();
  for (const verb of ['status', 'stop']) {
    const { code, out } = await runCella(['serve', verb, '--data', folder], {});
    expect({ code, out }).toEqual({ code: verb === 'stop' ? 0 : 3, out: `No server runs on ${folder}.\n` });
  }
  expect(readdirSync(folder)).toEqual([]);
});

it('stops a server inside another program, which keeps running', async () => {
  await using server = await TestServer.start();
  const { dataDir } = server.facts;
  const { code, out } = await runCella(['serve', 'stop', '--data', dataDir], {});
  expect({ code, out }).toEqual({ code: 0, out: `The server in process ${process.pid} has ended.\n` });
});

it('names a misspelt variable and the one that was meant', async () => {
  // One that others reach without TLS does not start.
  const { err } = await runCella(['serve', '--host', '0.0.0.0'], {
    CELLA_DATA_DIR: await scratchFolder(),
    CELLA_MAX_KERNEL: '3',
  });
  expect(err).toContain('Unknown setting CELLA_MAX_KERNEL (ignored). Did you mean CELLA_MAX_KERNELS?\n');
});

it('keeps events for CELLA_KEEP_DAYS days', async () => {
  const { dataDir, retention } = resolveServerConfig({ dataDir: await scratchFolder() }, { CELLA_KEEP_DAYS: '7' });
  let daysAgo = 8;
  const clock = () => Date.now() - daysAgo * 24 * 3_600_000;
  await using storage = await FileStorage.open(dataDir, { clock });
  await using server = await TestServer.start({
    dataDir,
    storage,
    retention,
    hosting: { sweepEveryMs: 20 },
  });
  const { id } = await server.session();
  const position = async () => {
    const { json } = await server.call<{ trimmedThrough: number; last: number }>(
      `GET /v1/sessions/${id}/events?limit=1`,
    );
    return json;
  };
  await server.run(id, '1');
  const { last } = await position();
  daysAgo = 6;
  await server.run(id, '1');
  expect((await position()).last).toBeGreaterThan(last);
  await expect.poll(async () => (await position()).trimmedThrough, { timeout: 10_000 }).toBe(last);
});

describe('npm start', () => {
  it('starts a server that Ctrl-C shuts down cleanly', async () => {
    using place = new Cella();
    const env = { ...process.env, CELLA_DATA_DIR: place.dataDir, NO_COLOR: '1' };
    const npm = spawn('npm', ['start', '--', '--port', '0'], { cwd: root, env, detached: true });
    const started = new Started(npm);
    await started.says('The first cell');
    expect(started.out).toMatch(/log in once: +http/);
    const { pid } = JSON.parse(readFileSync(join(place.dataDir, 'daemon.json'), 'utf8'));
    pids.add(pid);
    // As a terminal does: to all of them at once.
    process.kill(-(npm.pid ?? 0), 'SIGINT');
    await started.ended;
    expect(started.err).toContain('"msg":"ended"');
    expect(isAlive(pid)).toBe(false);
    expect(existsSync(join(place.dataDir, 'daemon.json'))).toBe(false);
  });
});
