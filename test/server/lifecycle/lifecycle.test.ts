/** The life of `cella serve`: what it prints works, it has its data folder alone, and it ends in good order. */

import { execFile } from 'node:child_process';
import { on, once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { connect } from '../../../src/client/index.ts';
import { CloseCode } from '../../../src/protocol/api/socket-frames.ts';
import { Cella, launcher, type Started } from '../../support/cli/command.ts';
import { descendants } from '../../support/processes/processes.ts';

const run = promisify(execFile);
let cella: Cella;
beforeEach(() => {
  cella = new Cella();
});
afterEach(() => cella[Symbol.dispose]());

interface Served {
  readonly started: Started;
  readonly url: string;
  readonly token: string;
  call(what: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
}

async function start(...flags: string[]): Promise<Served> {
  const started = cella.start(['serve', '--port', '0', ...flags]);
  await started.says('The first cell');
  const url = / at (https?:\S+)/.exec(started.out)?.[1] ?? '';
  const token = readFileSync(join(cella.dataDir, 'admin-token'), 'utf8').trim();
  const call: Served['call'] = async (what, body, headers = {}) => {
    const [method = '', path = ''] = what.split(' ');
    return await fetch(new URL(path, url), {
      method,
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  };
  return { started, url, token, call };
}

/** How often its threads have gone to wait for something. */
function wakeUps(pid = 0): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const counts = threads.map((thread) => {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8');
    return Number(/^voluntary_ctxt_switches:\s+(\d+)$/m.exec(status)?.[1]);
  });
  return counts.reduce((sum, count) => sum + count, 0);
}

async function session({ call }: Served, agentKey = 'life'): Promise<string> {
  const { id } = (await (await call('POST /v1/sessions', { agentKey })).json()) as { id: string };
  return id;
}

describe('cella serve', () => {
  it('prints how to run the first cell, which works', async () => {
    const { started, token, call } = await start();
    const { out } = started;
    expect(out).not.toContain(token);
    expect(statSync(join(cella.dataDir, 'admin-token')).mode & 0o777).toBe(0o600);
    expect(statSync(join(cella.dataDir, 'daemon.sock')).mode & 0o777).toBe(0o600);
    const [, typed = '', sent = ''] = /\nThe first cell:\n(.*)\nThe same over HTTP:\n(.*)$/s.exec(out) ?? [];
    // As in another terminal, which has no variable for the data folder.
    const { CELLA_DATA_DIR: _, ...env } = process.env;
    // On a machine without `cella` on its PATH, the command needs none.
    const asCella = `cella() { ${process.execPath} ${launcher} "$@"; }\n`;
    expect((await run('bash', ['-c', asCella + typed], { env })).stdout).toBe('42\n');
    const { sessions } = (await (await call('GET /v1/sessions')).json()) as { sessions: unknown[] };
    expect(sessions).toMatchObject([{ agentKey: 'first' }]);
    const { stdout } = await run('bash', ['-c', sent]);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'ok', value: 42 });
    const link = /once: +(\S+)/.exec(out)?.[1] ?? '';
    expect((await fetch(link, { method: 'POST', redirect: 'manual' })).status).toBe(303);
    expect((await fetch(link, { method: 'POST', redirect: 'manual' })).status).toBe(401);
  });

  it('answers its own user on a socket, without a token', async () => {
    await start();
    const sent = request({ socketPath: join(cella.dataDir, 'daemon.sock'), path: '/v1/me' });
    sent.end();
    const [response] = await once(sent, 'response');
    let text = '';
    for await (const part of response.setEncoding('utf8')) text += part;
    expect(JSON.parse(text)).toMatchObject({ userId: 'local', role: 'admin' });
  });

  it('is idle without requests', async () => {
    const { started } = await start();
    let least = Number.POSITIVE_INFINITY;
    // What it does at its start takes some time, and others may use the machine.
    for (let second = 0; second < 20 && least >= 20; second++) {
      const before = wakeUps(started.child.pid);
      await delay(1000);
      least = Math.min(least, wakeUps(started.child.pid) - before);
    }
    expect(least).toBeLessThan(20);
  });

  it('has its data folder for itself, and a second one says which server has it', async () => {
    const first = await start();
    const { code, err } = await cella.run(['serve', '--port', '0']);
    expect(code).toBe(1);
    expect(err).toContain('Another server runs on');
    expect(err).toContain(`process ${first.started.child.pid}`);
    expect((await first.call('GET /ready')).status).toBe(200);
    first.started.child.kill('SIGKILL');
    await first.started.ended;
    // What a killed one leaves behind is no obstacle.
    await start();
  });

  it.each([
    ['another address without TLS', ['--host', '0.0.0.0'], '--insecure-http'],
    ['a certificate without its key', ['--tls-cert', 'x'], '--tls-key'],
    ['a certificate that is not there', ['--tls-cert', '/nowhere', '--tls-key', '/nowhere'], '/nowhere'],
    ['an address that is not its own', ['--host', '192.0.2.1', '--insecure-http'], '192.0.2.1'],
    ['a privilege that is none', ['--members-may', 'fly'], 'fly'],
  ])('refuses %s', async (_what, flags, told) => {
    const { code, err } = await cella.run(['serve', '--port', '0', ...flags]);
    expect(code).toBe(2);
    expect(err).toContain(told);
  });

  it('serves TLS under its name, with a cookie that is never sent without TLS', async () => {
    const [key, cert] = [join(cella.temporary, 'key.pem'), join(cella.temporary, 'cert.pem')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    await run('openssl', [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-keyout',
      key,
      '-out',
      cert,
      '-days',
      '2',
      ...subject,
    ]);
    const tls = ['--tls-cert', cert, '--tls-key', key];
    const { url, started } = await start('--host', '0.0.0.0', ...tls, '--allow-host', 'localhost');
    expect(url).toMatch(/^https:\/\/localhost:/);
    const stranger = await cella.run(['sessions', 'list', '--url', url], { env: { CELLA_TOKEN: 'cella_x_y' } });
    expect(stranger.err).toContain('The certificate of');
    expect(stranger.err).toContain('NODE_EXTRA_CA_CERTS');
    const link = /once: +(\S+)/.exec(started.out)?.[1] ?? '';
    const { stdout } = await run('curl', ['-si', '-X', 'POST', '--cacert', cert, link]);
    expect(stdout).toMatch(/^HTTP\/1.1 303/);
    expect(stdout).toMatch(/set-cookie: .*; Secure/i);
    expect(stdout).toMatch(/strict-transport-security/i);
    const { stdout: wrong } = await run('curl', ['-si', '--cacert', cert, '-H', 'Host: evil.example', `${url}/health`]);
    expect(wrong).toMatch(/^HTTP\/1.1 403/);
  });

  it('serves other addresses without TLS on request, trims events, and records client addresses', async () => {
    const { url, token } = await start('--host', '0.0.0.0', '--insecure-http', '--keep-mb', '1');
    // An address that nobody named: only a server on all of them answers there.
    expect((await fetch(`http://127.0.0.2:${new URL(url).port}/health`)).status).toBe(200);
    const client = await connect({ url, token });
    await using session = await client.open({ agentKey: 'kept' });
    await session.run('for i in range(15): display("x" * 200_000)');
    await session.run('print("last")');
    const headers = { authorization: `Bearer ${token}` };
    const at = `/v1/sessions/${session.id}`;
    const kept = await session.eventPage();
    expect(kept.trimmedThrough).toBeGreaterThan(5);
    const { trimmedThrough } = kept;
    const page = (await (await fetch(`${url}${at}/events?limit=2`, { headers })).json()) as typeof kept;
    expect(page.trimmedThrough).toBe(trimmedThrough);
    expect(page.events.map((item) => ('seq' in item ? item.seq : item))[0]).toEqual({
      type: 'trimmed',
      throughSeq: trimmedThrough,
    });
    const stop = new AbortController();
    const feed = await fetch(`${url}${at}/events`, {
      headers: { ...headers, accept: 'application/x-ndjson' },
      signal: stop.signal,
    });
    const first = await feed.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toMatch(
      new RegExp(`^{"type":"trimmed","throughSeq":${trimmedThrough}}\n`),
    );
    stop.abort();
    const socket = new WebSocket(`${url.replace('http', 'ws')}${at}/ws?after=0`, { headers });
    const frames: string[] = [];
    // Both may come at the same time.
    for await (const [frame] of on(socket, 'message')) {
      if (!String(frame).includes('"heartbeat"') && frames.push(String(frame)) === 2) break;
    }
    socket.terminate();
    expect(frames.map((text) => JSON.parse(text))).toMatchObject([
      { type: 'hello', trimmedThrough },
      { type: 'trimmed', throughSeq: trimmedThrough },
    ]);
    for await (const item of session.events({ after: 0 })) {
      expect(item).toEqual({ type: 'trimmed', throughSeq: trimmedThrough });
      break;
    }
  });

  it('lets running code finish on SIGTERM, refuses new work, notifies clients, saves, and exits with 0', async () => {
    const served = await start('--grace', '20');
    const id = await session(served);
    await served.call(`POST /v1/sessions/${id}/execute`, { code: 'kept = 1' });
    const socket = new WebSocket(`${served.url.replace('http', 'ws')}/v1/sessions/${id}/ws`, {
      headers: { authorization: `Bearer ${served.token}` },
    });
    const frames: { type: string; text?: string; id?: number }[] = [];
    const closed = new Promise<number>((resolve) => socket.on('close', resolve));
    const until = (type: string) =>
      new Promise<void>((resolve) => {
        socket.on('message', (data) => {
          const frame = JSON.parse(String(data));
          frames.push(frame);
          if (frame.type === type) resolve();
        });
      });
    const asked = until('input_request');
    const draining = until('draining');
    const running = served.call(`POST /v1/sessions/${id}/execute`, { code: 'kept += 1; word = input(); word' });
    await asked;
    served.started.child.kill('SIGTERM');
    await draining;
    const refused = await served.call(`POST /v1/sessions/${id}/execute`, { code: '1' });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({ error: { code: 'SERVER_STOPPING' } });
    expect((await served.call('GET /ready')).status).toBe(503);
    expect((await served.call('GET /health')).status).toBe(200);
    const request = frames.find(({ type }) => type === 'input_request')?.id;
    expect((await served.call(`POST /v1/sessions/${id}/input`, { request, text: 'last' })).status).toBe(204);
    expect(await (await running).json()).toMatchObject({ status: 'ok', value: 'last' });
    expect(await closed).toBe(CloseCode.closing);
    expect(await served.started.ended).toBe(0);
    for (const left of ['daemon.sock', 'daemon.json']) expect(existsSync(join(cella.dataDir, left))).toBe(false);
    const again = await start();
    const { sessions } = (await (await again.call('GET /v1/sessions')).json()) as { sessions: unknown[] };
    expect(sessions).toMatchObject([{ id, state: 'hibernated' }]);
    const result = await again.call(`POST /v1/sessions/${id}/execute`, { code: 'kept' });
    expect(await result.json()).toMatchObject({ value: 2 });
  });

  it('interrupts code that takes longer than the grace period', async () => {
    const served = await start('--grace', '0.2');
    const id = await session(served);
    const running = served.call(
      `POST /v1/sessions/${id}/execute`,
      { code: 'print("go")\nwhile True: pass' },
      { accept: 'application/x-ndjson' },
    );
    const { body } = await running;
    let text = '';
    let told = false;
    for await (const chunk of body ?? []) {
      text += Buffer.from(chunk).toString();
      if (told || !text.includes('"stdout"')) continue;
      told = true;
      served.started.child.kill('SIGTERM');
    }
    expect(text).toMatch(/"status":"interrupted"|SERVER_STOPPING/);
    expect(await served.started.ended).toBe(0);
  });

  it('ends at once on a second signal, and leaves no kernel', async () => {
    const served = await start('--grace', '60');
    const id = await session(served);
    const response = await served.call(
      `POST /v1/sessions/${id}/execute`,
      { code: 'print("go")\nwhile True: pass' },
      { accept: 'application/x-ndjson' },
    );
    const { child } = served.started;
    const kernels = () => descendants(child.pid ?? 0);
    let left: number[] = [];
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        if (!decoder.decode(chunk).includes('"stdout"')) continue;
        left = kernels().map(({ pid }) => pid);
        child.kill('SIGTERM');
        child.kill('SIGINT');
      }
    } catch {
      // The connection ends with the server.
    }
    expect(['SIGTERM', 'SIGINT']).toContain(await served.started.ended);
    expect(left.length).toBeGreaterThan(0);
    await expect.poll(() => left.filter((pid) => existsSync(`/proc/${pid}`)), { timeout: 10_000 }).toEqual([]);
  });
});
