/** Terminals of a session: a PTY in its sandbox over a WebSocket; clients that do not read, vanish, or send nonsense. */

import { once } from 'node:events';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { connect } from '../../../src/client/index.ts';
import { CloseCode } from '../../../src/protocol/api/socket-frames.ts';
import { KernelPool } from '../../../src/session/kernel-pool.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let id: string;
beforeAll(async () => {
  server = await TestServer.start({
    limits: { slowClientTimeoutMs: 2500, heartbeatMs: 4000, frameBytes: 200_000 },
    rates: { perSecond: 10_000, burst: 10_000 },
  });
  ({ id } = await server.session({ agentKey: 'terminals', shares: [{ role: 'viewer', right: 'view' }] }));
});

type Text = Record<string, unknown> & { readonly type: string };

interface ScreenOptions {
  readonly session?: string;
  readonly query?: string;
  readonly token?: string;
  readonly headers?: Record<string, string>;
}

/** A person at a terminal. */
class Screen implements Disposable {
  readonly socket: WebSocket;
  readonly texts: Text[] = [];
  readonly closed: Promise<number>;
  bytes = 0;
  #shown = '';

  constructor({ session = id, query = '', token = server.token, headers = {} }: ScreenOptions = {}) {
    const address = `${server.url.replace('http', 'ws')}/v1/sessions/${session}/terminal?${query}`;
    this.socket = new WebSocket(address, { headers: { authorization: `Bearer ${token}`, ...headers } });
    this.socket.on('message', (data: Buffer, binary) => {
      if (!binary) {
        const frame: Text = JSON.parse(String(data));
        if (frame.type !== 'heartbeat') this.texts.push(frame);
      } else {
        this.bytes += data.length;
        this.#shown = (this.#shown + data.toString('latin1')).slice(-100_000);
      }
    });
    this.socket.on('error', () => {}); // told by its end
    this.closed = new Promise((resolve) => this.socket.on('close', resolve));
  }

  get shown(): string {
    return this.#shown;
  }

  async type(text: string): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    this.socket.send(Buffer.from(text));
  }

  /** A line for the shell, when it asks for one: what is typed while it changes the terminal may be lost, as anywhere. */
  async run(line: string): Promise<void> {
    await this.until(/[$#] $/);
    this.#shown = '';
    await this.type(`${line}\n`);
  }

  async say(frame: unknown): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    this.socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  /** Waits until this is shown; gives what it matched. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const closed = this.closed.then((code) => {
      throw new Error(`closed with ${code}: ${this.#shown.slice(-500)} ${JSON.stringify(this.texts)}`);
    });
    closed.catch(() => {});
    const late = delay(50_000, undefined, { ref: false }).then(() => {
      throw new Error(`not shown: ${pattern}: ${JSON.stringify(this.#shown.slice(-2000))}`);
    });
    late.catch(() => {});
    for (;;) {
      const found = pattern.exec(this.#shown);
      if (found) return found;
      await Promise.race([once(this.socket, 'message'), closed, late]);
    }
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}

const argv = (...words: string[]): string => words.map((word) => `argv=${encodeURIComponent(word)}`).join('&');

async function refusal(options: ScreenOptions): Promise<{ status: number; code: unknown }> {
  using screen = new Screen(options);
  const [, response] = await once(screen.socket, 'unexpected-response');
  let text = '';
  for await (const part of response) text += part;
  return { status: response.statusCode, code: JSON.parse(text).error.code };
}

/** Processes of the session with this word in their command line, as its kernel sees them. */
async function processes(word: string, session = id): Promise<number> {
  const code = `
import os
found = 0
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            found += ${JSON.stringify(word)} in open('/proc/%s/cmdline' % pid).read()
        except OSError:
            pass
found`;
  return Number((await server.run(session, code)).value);
}

const gone = (word: string, session = id) =>
  expect.poll(() => processes(word, session), { timeout: 20_000, interval: 50 }).toBe(0);

describe('a terminal', () => {
  it('is a shell in the sandbox of the session, with job control, size and exit code', async () => {
    await server.run(id, 'open("here.txt", "w").write("from the kernel")');
    using screen = new Screen({ query: 'cols=91&rows=17' });
    await screen.run('cat here.txt; echo; stty size; tty; ps -o tty= -p $$; echo $TERM "[$SHLVL]"; cd /; ls');
    await screen.until(/from the kernel\r\n17 91\r\n\/dev\/pts\/\d+\r\n/);
    await screen.until(/xterm-256color/);
    await screen.run('echo re""ady; cat');
    await screen.until(/ready/);
    await screen.type('typed\n');
    await screen.until(/typed\r\ntyped\r\n/);
    // Ctrl-C reaches the program, not the shell.
    await screen.type('\u0003');
    await screen.run('echo code $?');
    await screen.until(/code 130/);
    await screen.say({ type: 'resize', cols: 120, rows: 40 });
    await screen.run('stty size < /dev/tty; set -m; jobs -l; exit 7');
    await screen.until(/40 120/);
    expect(await screen.closed).toBe(1000);
    expect(screen.texts).toEqual([{ type: 'exit', code: 7 }]);
    // The same processes and files as the code of the session, and none of the host's.
    expect(await server.run(id, 'import os; len([p for p in os.listdir("/proc") if p.isdigit()]) < 20')).toMatchObject({
      value: true,
    });
  });

  it('reports the window size to another program, and the signal that killed it', async () => {
    const code = `import os, signal, sys
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, str(os.get_terminal_size()).encode()))
print('ready', sys.argv[1:], os.isatty(0), flush=True)
while True: signal.pause()`;
    using screen = new Screen({ query: argv('python3', '-c', code, 'a b') });
    await screen.until(/ready \['a b'\] True/);
    await screen.say({ type: 'resize', cols: 33, rows: 11 });
    await screen.until(/columns=33, lines=11/);
    await screen.type('\u001c');
    expect(await screen.closed).toBe(1000);
    expect(screen.texts).toEqual([{ type: 'exit', signal: 'SIGQUIT' }]);
    using wrong = new Screen({ query: 'argv=no-such-program' });
    expect(await wrong.closed).toBe(CloseCode.failed);
    expect(wrong.texts).toMatchObject([{ type: 'error', error: { code: 'TOOL_FAILED' } }]);
  });

  it('ends with its connection, even if its processes ignore signals or hide', async () => {
    using screen = new Screen();
    const hide = `trap "" HUP TERM INT; (setsid nohup sleep 77001 >/dev/null 2>&1 &); sleep 77001 & echo on${''}ward`;
    await screen.run(hide);
    await screen.until(/onward\r\n/);
    await expect.poll(() => processes('77001'), { timeout: 20_000 }).toBe(2);
    screen.socket.terminate();
    await gone('77001');
  });

  it('ends if its client disconnected during the start, even if its program prints nothing', async () => {
    const leave = async () => {
      using screen = new Screen({ query: argv('sleep', '77002') });
      await once(screen.socket, 'open');
    };
    await Promise.all(Array.from({ length: 4 }, leave));
    // The one that comes after them begins after them.
    using screen = new Screen();
    await screen.run('echo be""gun');
    await screen.until(/begun/);
    await gone('77002');
  });

  it('ends with its environment: reset, hibernation and deletion', async () => {
    const { id: own } = await server.session({ agentKey: 'ending' });
    for (const what of ['reset', 'hibernate', 'restart']) {
      using screen = new Screen({ session: own });
      await screen.run('echo be""gun');
      await screen.until(/begun/);
      expect((await server.call(`POST /v1/sessions/${own}/${what}`)).status).toBeLessThan(300);
      await screen.closed;
      expect.soft({ what, texts: screen.texts }).toEqual({ what, texts: [{ type: 'exit', signal: 'SIGKILL' }] });
    }
    using screen = new Screen({ session: own });
    await screen.run('echo be""gun');
    await screen.until(/begun/);
    await server.call(`DELETE /v1/sessions/${own}`);
    await screen.closed;
  });

  it('stays open if the kernel next to it dies', async () => {
    const { id: own } = await server.session({ agentKey: 'beside' });
    using screen = new Screen({ session: own });
    await screen.run('echo be""gun');
    await screen.until(/begun/);
    await server.run(own, 'import os; os._exit(3)');
    await screen.run('echo re""ady; cat');
    await screen.until(/ready/);
    // All that lives there is held still for a moment while a kernel goes back: no shell takes that for a Ctrl-Z.
    for (let n = 0; n < 5; n++) await server.run(own, 'x = 1', { transaction: 'rollback_always' });
    await screen.type('still here\n');
    await screen.until(/still here\r\nstill here\r\n/);
    expect(screen.shown).not.toContain('Stopped');
  });

  it('is refused if the session has no room for another process, and the session continues', async () => {
    const { id: own } = await server.session({ agentKey: 'crowded', limits: { processes: 12 } });
    const crowd = `import subprocess
crowd = []
try:
    while True: crowd.append(subprocess.Popen(['sleep', '1000']))
except OSError:
    pass
len(crowd) > 2`;
    expect(await server.run(own, crowd)).toMatchObject({ value: true });
    using screen = new Screen({ session: own });
    expect(await screen.closed).toBe(CloseCode.failed);
    expect(screen.texts).toMatchObject([{ type: 'error', error: { code: 'TOOL_FAILED' } }]);
    expect(await server.run(own, 'for one in crowd: one.kill()')).toMatchObject({ status: 'ok' });
  });

  it('makes a program wait if nobody reads its output, in bounded memory, and disconnects the client', async () => {
    using screen = new Screen();
    await screen.run('echo be""gun; sleep 0.1; head -c 100000000 /dev/zero | tr "\\0" x; echo 77002');
    await screen.until(/begun/);
    screen.socket.pause();
    const before = process.memoryUsage().rss;
    const { closed } = screen;
    await expect.poll(dropped, { timeout: 20_000, interval: 100 }).toBeGreaterThan(0);
    expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
    screen.socket.resume();
    expect([CloseCode.slow, 1006]).toContain(await closed);
    expect(screen.bytes).toBeLessThan(30_000_000);
    await gone('/dev/zero');
  });

  it('gives all output to a client that reads', async () => {
    using screen = new Screen({ query: argv('sh', '-c', 'head -c 20000000 /dev/zero | tr "\\0" x') });
    expect(await screen.closed).toBe(1000);
    expect(screen.texts).toEqual([{ type: 'exit', code: 0 }]);
    expect(screen.bytes).toBe(20_000_000);
  });

  it('makes a client wait if nobody reads its input, and continues when somebody does', async () => {
    const wait = 'stty raw -echo; echo ready; until [ -e go ]; do sleep 0.05; done; head -c 20000000 | wc -c';
    using screen = new Screen({ query: argv('sh', '-c', wait) });
    await screen.until(/ready/);
    const chunk = Buffer.alloc(50_000, 'y');
    for (let n = 0; n < 400; n++) screen.socket.send(chunk);
    // What the program has not taken waits with the client: more than any buffer on the way would hold.
    for (let n = 0; n < 20; n++) await server.run(id, '1');
    expect(screen.socket.bufferedAmount).toBeGreaterThan(5_000_000);
    await server.run(id, 'open("go", "w").close()');
    await screen.until(/20000000/);
  });

  it('accepts any bytes, and refuses invalid frames', async () => {
    using screen = new Screen({
      query: argv('sh', '-c', 'stty raw -echo; echo ready; head -c 3 | od -An -tx1; sleep 99'),
    });
    await screen.until(/ready/);
    screen.socket.send(Buffer.from([0x1b, 0, 0xff]));
    await screen.until(/1b 00 ff/);
    for (const size of [
      { cols: 0, rows: 0 },
      { cols: 1e9, rows: 24 },
      { cols: 80.5, rows: 24 },
      { cols: -1, rows: 1 },
      {},
    ]) {
      await screen.say({ type: 'resize', ...size });
    }
    await screen.say({ type: 'nonsense' });
    await screen.say('[1, 2]');
    await screen.say({ type: 'resize', cols: 81, rows: 25 });
    await expect.poll(() => screen.texts.length).toBe(7);
    expect(screen.texts.map(({ error }) => (error as { code: string }).code)).toEqual(Array(7).fill('INVALID_REQUEST'));
    await screen.say('no JSON');
    expect(await screen.closed).toBe(CloseCode.wrong);
    using large = new Screen();
    await large.type('x'.repeat(100_000));
    expect(await large.closed).toBe(CloseCode.tooLarge);
    using many = new Screen();
    await many.say({ type: 'resize', cols: 80, rows: 24 });
    // Faster than they are allowed to come, however slow the machine is.
    while (many.socket.readyState === WebSocket.OPEN) {
      for (let n = 0; n < 3000; n++) many.socket.send('{"type":"resize","cols":80,"rows":24}');
      await setImmediate();
    }
    expect(await many.closed).toBe(CloseCode.tooMuch);
  });

  it('is only for users with the right `use`, from the server’s own pages', async () => {
    const viewer = await server.user('watcher', 'viewer');
    const { id: own } = await server.session({ agentKey: 'own' });
    expect(await refusal({ token: viewer })).toEqual({ status: 403, code: 'FORBIDDEN' });
    expect(await refusal({ token: await server.user('stranger', 'member'), session: own })).toEqual({
      status: 404,
      code: 'NOT_FOUND',
    });
    expect((await refusal({ token: 'cella_x' })).status).toBe(401);
    expect((await refusal({ headers: { origin: 'https://evil.example' } })).status).toBe(403);
    expect((await refusal({ headers: { host: 'evil.example' } })).status).toBeGreaterThanOrEqual(400);
    for (const query of ['cols=0', 'rows=1000000000', 'cols=x', 'argv=a%00b', 'shell=sh']) {
      expect.soft(await refusal({ query })).toEqual({ status: 400, code: 'INVALID_REQUEST' });
    }
    const { id: wasm } = await server.session({ agentKey: 'wasm', executor: 'in-process' });
    expect(await refusal({ session: wasm })).toEqual({ status: 501, code: 'CAPABILITY_MISSING' });
  });

  it('ends when its token does', async () => {
    const { id: shared } = await server.session({ agentKey: 'shared', shares: [{ role: 'member', right: 'use' }] });
    using screen = new Screen({ session: shared, token: await server.user('leaver', 'member') });
    await screen.run('echo be""gun');
    await screen.until(/begun/);
    await server.call('PATCH /v1/users/leaver', { body: { disabled: true } });
    expect(await screen.closed).toBe(CloseCode.refused);
  });

  it('is in the audit log when it opens and closes, and counts as a client', async () => {
    const { id: own } = await server.session({ agentKey: 'audited' });
    using screen = new Screen({ session: own });
    await screen.run('echo be""gun');
    await screen.until(/begun/);
    expect((await server.call('GET /metrics')).text).toMatch(/cella_clients\{kind="terminal"\} [1-9]/);
    await screen.run('exit');
    await screen.closed;
    const actions = async () => {
      const { json } = await server.call<{ entries: { action: string }[] }>(`GET /v1/audit?session=${own}&limit=1000`);
      return json.entries.map(({ action }) => action).filter((action) => action.startsWith('terminal'));
    };
    await expect.poll(actions).toEqual(['terminal.open', 'terminal.close']);
  });

  it('prevents hibernation, and has a limit per session', async () => {
    await using napping = await TestServer.start({ hosting: { idleMs: 300 } });
    const { id: own } = await napping.session({ agentKey: 'awake' });
    const address = `${napping.url.replace('http', 'ws')}/v1/sessions/${own}/terminal`;
    const open = () => new WebSocket(address, { headers: { authorization: `Bearer ${napping.token}` } });
    const first = open();
    await once(first, 'message');
    const state = async (of: string) => (await napping.call<{ state: string }>(`GET /v1/sessions/${of}`)).json.state;
    // Another one that was used later has gone to sleep: this one would have, too.
    const { id: other } = await napping.session({ agentKey: 'asleep' });
    await napping.run(other, '1');
    await expect.poll(() => state(other), { timeout: 20_000 }).toBe('hibernated');
    expect(await state(own)).toBe('idle');
    const others = Array.from({ length: 15 }, open);
    await Promise.all(others.map((socket) => once(socket, 'message')));
    const [, response] = await once(open(), 'unexpected-response');
    expect(response.statusCode).toBe(429);
    for (const socket of [first, ...others]) socket.close();
    await expect.poll(() => state(own), { timeout: 20_000 }).toBe('hibernated');
    // Nor does it keep the server from ending.
    const last = open();
    await once(last, 'message');
    const [[code]] = await Promise.all([once(last, 'close'), napping[Symbol.asyncDispose]()]);
    expect([1000, CloseCode.closing]).toContain(code);
  });

  it('prevents its kernel from being hibernated for another', async () => {
    await using pool = new KernelPool({ maxKernels: 1, waitMs: 300, session: { dataDir: await scratchFolder() } });
    const session = await pool.acquire('first');
    const terminal = await session.terminal();
    await expect(pool.acquire('second')).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    await terminal.close();
    expect(await terminal.exited).toHaveProperty('signal');
    expect(await (await pool.acquire('second')).run('1')).toMatchObject({ value: 1 });
  });

  it.each(['url', 'socket'])('works in programs, through the client (%s)', async (way) => {
    await using client = await connect(
      way === 'url' ? { url: server.url, token: server.token } : { socket: server.facts.socketPath },
    );
    await using session = await client.session(id);
    await using terminal = await session.terminal({ cols: 70, rows: 20 });
    await terminal.write('stty size; read line; echo "[$line]"; exit 3\n');
    let shown = '';
    let told = false;
    for await (const chunk of terminal.output) {
      shown += Buffer.from(chunk).toString();
      if (told || !shown.includes('20 70')) continue;
      told = true;
      terminal.resize({ cols: 71, rows: 21 });
      await terminal.write('über\n');
    }
    expect(shown).toContain('[über]');
    expect(await terminal.exited).toEqual({ code: 3 });
    await expect(session.terminal({ cols: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    const { id: wasm } = await server.session({ agentKey: 'wasm', executor: 'in-process' });
    await using other = await client.session(wasm);
    await expect(other.terminal()).rejects.toMatchObject({ code: 'CAPABILITY_MISSING' });
  });
});

async function dropped(): Promise<number> {
  const { text } = await server.call('GET /metrics');
  return Number(/cella_clients_dropped_total\{why="slow"\} (\d+)/.exec(text)?.[1] ?? 0);
}
