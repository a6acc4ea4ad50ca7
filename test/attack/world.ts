/**
 * Where the hostile user is let loose: a real server with two users, and canaries around it. Mallory attacks; Victoria
 * must notice nothing. After each attempt `check` looks at everything outside Mallory's own sandbox by its effect.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { expect } from 'vitest';
import { isStopped } from '../../src/lib/process-identity.ts';
import { sharedEngineWithImage } from '../support/docker/shared-docker.ts';
import { PRELUDE, succeeded, type Verdicts } from '../support/kernels/attack-code.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { spellingsOf } from '../support/processes/canary.ts';
import { descendants, isAlive } from '../support/processes/processes.ts';
import { shareCache } from '../support/run/shared-cache.ts';
import type { TestServerOptions } from '../support/servers/serve-here.ts';

export type Place = 'subprocess' | 'container' | 'user';

/** How much more memory than before the server may take while it is attacked: its budgets, and what garbage is left. */
const MOST_GROWTH_MB = 900;
/** What a neighbour may have to wait, beside what it waits at rest: on a busy machine that is a lot. */
const STALL_MS = 1500;
const TIMEOUT_MS = 120_000;
/** A server that takes longer to end is killed. */
const MOST_END_MS = 45_000;
/** Errors of code that was written wrong, or that looks for what has another name by now. */
const MISTAKES: ReadonlySet<unknown> = new Set(
  'AttributeError ImportError IndentationError ModuleNotFoundError NameError SyntaxError UnboundLocalError'.split(' '),
);

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what a server answers to an attack can be anything
  readonly json: any;
}

export interface Asked {
  readonly body?: unknown;
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

/** A user with a token and a session. All that Mallory hears is kept for one look at the end of each attempt. */
export class WorldUser {
  readonly world: World;
  readonly name: string;
  readonly token: string;
  userId = '';
  session = '';

  constructor(world: World, name: string, token: string) {
    this.world = world;
    this.name = name;
    this.token = token;
  }

  /** `what` is a method and a path; `~` in it stands for the path of the own session. */
  async call(what: string, asked: Asked = {}): Promise<Reply> {
    const reply = await this.world.ask(what.replace('~', `/v1/sessions/${this.session}`), {
      ...asked,
      token: asked.token === undefined ? this.token : asked.token,
    });
    if (this !== this.world.victoria && this !== this.world.admin) this.world.seen.push(reply.text);
    return reply;
  }

  async open(settings: Record<string, unknown> = {}): Promise<string> {
    const { executor } = this.world;
    const reply = await this.call('POST /v1/sessions', {
      body: { agentKey: randomBytes(6).toString('hex'), ...executor, ...settings },
    });
    if (reply.status >= 300) throw new Error(`no session: ${reply.text}`);
    this.userId = reply.json.ownerId;
    return reply.json.id;
  }

  async run(code: string, { timeoutMs = 30_000, session = this.session } = {}): Promise<Reply['json']> {
    const { json } = await this.call(`POST /v1/sessions/${session}/execute`, { body: { code, timeoutMs } });
    if (MISTAKES.has(json.error?.name))
      throw new Error(`this attacks nothing: ${json.error.name}: ${json.error.message}`);
    return json;
  }

  /** What the last expression gives; an error of the code fails the attempt. */
  async value(code: string, options: { timeoutMs?: number; session?: string } = {}): Promise<unknown> {
    const result = await this.run(code, options);
    if (result.status !== 'ok') throw new Error(`${result.status}: ${JSON.stringify(result.error ?? result)}`);
    return result.value;
  }

  /** Runs code after the prelude of attacks, and gives what came through. Its value maps attempts to how they ended. */
  async through(code: string, options: { timeoutMs?: number; session?: string } = {}): Promise<Verdicts> {
    return succeeded((await this.value(`${PRELUDE}\n${code}`, options)) as Verdicts);
  }
}

interface CheckOptions {
  readonly stalls?: boolean;
  readonly mostGrowthMb?: number | undefined;
}

interface Started {
  readonly child: ChildProcess;
  readonly url: string;
  readonly socketPath: string;
}

interface ServerEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class World implements AsyncDisposable {
  readonly place: Place;
  readonly folder: string;
  readonly dataDir: string;
  /** Nobody but the host may read what lies here. */
  readonly secretDir: string;
  /** Listens on the host's loopback; nobody but the host may reach it. */
  readonly loopback: Server;
  /** A program of the host's that must not be touched. */
  readonly bystander: ChildProcess;
  readonly executor: Record<string, string>;
  /** All that Mallory has been told since the last check. */
  readonly seen: string[] = [];
  readonly secrets: Record<string, string> = {
    "the host's file": `host-file-${randomBytes(12).toString('hex')}`,
    "the name of a host's file": `host-name-${randomBytes(12).toString('hex')}`,
    "the neighbour's file": `victim-file-${randomBytes(12).toString('hex')}`,
    "the neighbour's memory": `victim-memory-${randomBytes(12).toString('hex')}`,
    "the neighbour's artifact": `victim-artifact-${randomBytes(12).toString('hex')}`,
    "a provider's key": `sk-ant-${randomBytes(16).toString('hex')}`,
    'the loopback service': `loopback-${randomBytes(12).toString('hex')}`,
  };
  admin!: WorldUser;
  mallory!: WorldUser;
  victoria!: WorldUser;
  loopbackHits = 0;
  /** What attempts have opened for all that follow. */
  readonly stack = new AsyncDisposableStack();
  readonly #options: TestServerOptions;
  #server: Started | undefined;
  #healthProbe: Worker | undefined;
  #idleStallMs = 0;
  #outside = '';
  #memoryMb = 0;
  #logRead = 0;

  private constructor(place: Place, folder: string, executor: Record<string, string>, options: TestServerOptions) {
    this.place = place;
    this.folder = folder;
    this.executor = executor;
    this.#options = options;
    this.dataDir = join(folder, 'data');
    this.secretDir = join(folder, 'secret');
    this.loopback = createServer((_request, response) => {
      this.loopbackHits++;
      response.end(this.secrets['the loopback service']);
    });
    this.bystander = spawn('/bin/sleep', ['86400'], { stdio: 'ignore' });
  }

  static async open(place: Place, options: TestServerOptions = {}): Promise<World> {
    const engine = place === 'container' ? await sharedEngineWithImage() : undefined;
    const executor: Record<string, string> = place === 'container' ? { executor: 'container' } : {};
    const session = { ...options.session, ...(engine === undefined ? {} : { engine }) };
    const world = new World(place, await scratchFolder(), executor, { ...options, session });
    await world.#begin();
    return world;
  }

  async #begin(): Promise<void> {
    mkdirSync(this.dataDir, { mode: 0o700 });
    if (this.place === 'container') shareCache(this.dataDir);
    this.#mend();
    await once(this.loopback.listen(0, '127.0.0.1'), 'listening');
    await this.#start();
    this.admin = new WorldUser(this, 'local', this.secrets["the admin's token"] ?? '');
    [this.mallory, this.victoria] = [await this.user('mallory'), await this.user('victoria')];
    for (const one of [this.admin, this.mallory, this.victoria]) one.session = await one.open();
    await this.#furnish();
    this.seen.length = 0;
    await this.pulse();
    const calm = [];
    for (let round = 0; round < 5; round++) {
      await this.victoria.value('kept');
      calm.push((await this.pulse()).longestMs);
    }
    this.#idleStallMs = Math.max(...calm);
    this.#memoryMb = this.residentMb;
  }

  /** What Victoria has and Mallory wants. */
  async #furnish(): Promise<void> {
    const { victoria, secrets } = this;
    const quoted = (what: string) => JSON.stringify(secrets[what]);
    const code = `
kept = 41
secret = ${quoted("the neighbour's memory")}
open('diary', 'w').write(${quoted("the neighbour's file")})
artifacts.save('diary', ${quoted("the neighbour's artifact")})`;
    await victoria.value(code);
    secrets["the neighbour's token"] = victoria.token;
    await victoria.call('PUT /v1/credentials/anthropic', { body: { value: secrets["a provider's key"] } });
  }

  get secretFile(): string {
    return join(this.secretDir, 'secret');
  }

  /** Whose name is the secret. */
  get namedFile(): string {
    return join(this.secretDir, this.secrets["the name of a host's file"] ?? '');
  }

  get loopbackPort(): number {
    return (this.loopback.address() as AddressInfo).port;
  }

  get url(): string {
    return this.#running.url;
  }

  get socketPath(): string {
    return this.#running.socketPath;
  }

  get pid(): number {
    return this.#running.child.pid ?? 0;
  }

  get #running(): Started {
    if (!this.#server) throw new Error('the server does not run');
    return this.#server;
  }

  get residentMb(): number {
    const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8')) ?? [];
    return Number(kb) / 1024;
  }

  /** The processor time that the server itself has used so far, without its kernels. */
  get cpuMs(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8');
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13);
    return 10 * (Number(user) + Number(system));
  }

  get logText(): string {
    const file = join(this.folder, 'server.log');
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  async #start(): Promise<void> {
    const program = fileURLToPath(new URL('server-child.ts', import.meta.url));
    const options = { ...this.#options, dataDir: this.dataDir, logFile: join(this.folder, 'server.log') };
    const child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'pipe'] });
    let problems = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      problems += text;
    });
    const ended = once(child, 'exit').then(([code, signal]) => {
      throw new Error(`the server ended with ${code ?? signal} before it served: ${problems.slice(-2000)}`);
    });
    ended.catch(() => {});
    const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
    const { url, token, socketPath } = JSON.parse(String(line));
    this.secrets["the admin's token"] = token;
    this.#server = { child, url, socketPath };
    this.#healthProbe = new Worker(new URL('health-probe.mjs', import.meta.url), {
      workerData: { url, pid: child.pid },
    });
    this.#healthProbe.unref();
  }

  /**
   * As an operator does. What no server can open any more fails here. `between`: done while no server runs. Gives how the
   * server ended: by a signal if it had to be killed.
   */
  async restart(between?: () => Promise<void>): Promise<ServerEnd> {
    const end = await this.#stop();
    await between?.();
    await this.#start();
    this.#memoryMb = this.residentMb;
    return end;
  }

  async #stop(): Promise<ServerEnd> {
    await this.#healthProbe?.terminate();
    const { child } = this.#running;
    this.#server = undefined;
    if (child.exitCode === null && child.signalCode === null) {
      const over = once(child, 'exit');
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), MOST_END_MS);
      await over;
      clearTimeout(late);
    }
    return { code: child.exitCode, signal: child.signalCode };
  }

  async ask(what: string, { body, token = this.admin?.token ?? '', headers = {}, signal }: Asked = {}): Promise<Reply> {
    const [method = 'GET', path = '/'] = what.split(/ (.*)/s);
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await fetch(new URL(path, this.url), {
      method,
      redirect: 'manual',
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
      ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
      signal: signal ?? AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : {} };
  }

  /** Makes a user with a token of all its scopes. */
  async user(name: string, role = 'member'): Promise<WorldUser> {
    await this.ask('POST /v1/users', { body: { name, role } });
    const { json, text } = await this.ask('POST /v1/tokens', { body: { name: 'attack', user: name } });
    if (typeof json.token !== 'string') throw new Error(`no token: ${text}`);
    return new WorldUser(this, name, json.token);
  }

  /** The longest that anybody had to wait for the server, and the most memory that it had, since the last call. */
  async pulse(): Promise<{ readonly longestMs: number; readonly mostMb: number }> {
    if (!this.#healthProbe) return { longestMs: 0, mostMb: 0 };
    const answer = once(this.#healthProbe, 'message');
    this.#healthProbe.postMessage('tell');
    return (await answer)[0];
  }

  /** Everything on the host that code of a user must not change. */
  #look(): string {
    if (!existsSync(this.secretFile)) return 'the secret file is gone';
    const { size, mode, uid, ino, nlink } = statSync(this.secretFile);
    const here = readdirSync(this.folder).filter((name) => name !== 'server.log');
    const file = readFileSync(this.secretFile, 'utf8');
    return JSON.stringify({ size, mode, uid, ino, nlink, file, here, secret: readdirSync(this.secretDir) });
  }

  /** What one attempt has broken is no failure of the next. */
  #mend(): void {
    rmSync(this.secretDir, { recursive: true, force: true });
    // Others may look for it and find it: what is in it is theirs by no right but the host's.
    mkdirSync(this.secretDir, { mode: 0o755 });
    writeFileSync(this.secretFile, this.secrets["the host's file"] ?? '', { mode: 0o600 });
    writeFileSync(this.namedFile, '');
    this.#outside = this.#look();
  }

  /** Before an attempt: what came before it is not its own. */
  async arm(): Promise<void> {
    if (!isAlive(this.pid)) await this.restart();
    if (this.#look() !== this.#outside) this.#mend();
    this.seen.length = 0;
    this.loopbackHits = 0;
    this.#logRead = this.logText.length;
    this.#memoryMb = Math.max(this.residentMb, 150);
    await this.pulse();
  }

  /**
   * By effect: nothing was read, written, made or removed outside, and a neighbour is served. Gives whether nobody had
   * to wait for long, which `stalls` insists on.
   */
  async check({ stalls = true, mostGrowthMb = MOST_GROWTH_MB }: CheckOptions = {}): Promise<boolean> {
    const { longestMs: stallMs, mostMb: memoryMb } = await this.pulse();
    expect(isAlive(this.pid), 'the server lives').toBe(true);
    expect(this.#look(), 'files of the host').toBe(this.#outside);
    expect(isAlive(this.bystander.pid ?? 0), 'a process of the host lives').toBe(true);
    expect(isStopped(this.bystander.pid ?? 0), 'a process of the host was stopped').toBe(false);
    expect(this.loopbackHits, 'requests at a service of the host').toBe(0);
    const told = Buffer.from(this.seen.join('\n'));
    for (const [what, secret] of Object.entries(this.secrets)) {
      const own = this.mallory.token === secret;
      if (!own)
        expect(
          spellingsOf(secret).some((each) => told.includes(each)),
          `${what} was told`,
        ).toBe(false);
    }
    this.#checkProcesses();
    const logged = this.logText.slice(this.#logRead);
    for (const [what, secret] of Object.entries(this.secrets))
      expect(logged, `${what} in the log`).not.toContain(secret);
    const neighbour = await this.victoria.value("[kept + 1, open('diary').read(), secret]");
    const { secrets } = this;
    expect(neighbour).toEqual([42, secrets["the neighbour's file"], secrets["the neighbour's memory"]]);
    expect(memoryMb - this.#memoryMb, 'growth of the server in MB').toBeLessThan(mostGrowthMb);
    const mostMs = STALL_MS + 5 * this.#idleStallMs;
    if (stalls) expect(stallMs, 'the longest wait of others in ms').toBeLessThan(mostMs);
    return stallMs < mostMs;
  }

  /** What every user of the machine may read of a process. */
  #checkProcesses(): void {
    for (const { pid } of [{ pid: this.pid }, ...descendants(this.pid)]) {
      for (const part of ['cmdline', 'environ']) {
        let text = '';
        try {
          text = readFileSync(`/proc/${pid}/${part}`, 'utf8');
        } catch {
          continue; // it has ended
        }
        for (const [what, secret] of Object.entries(this.secrets)) {
          expect(text.includes(secret), `${what} in ${part} of ${pid}`).toBe(false);
        }
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stack.disposeAsync();
    this.bystander.kill('SIGKILL');
    this.loopback.close();
    this.loopback.closeAllConnections();
    await this.#stop();
    // Trees that are deeper than a path can be long are no match for Node.
    execFileSync('rm', ['-rf', this.dataDir]);
    if (existsSync(this.folder)) chmodSync(this.folder, 0o700);
  }
}
