/** A Redis server for a test: the real program, on a free port of the loopback, with a folder of its own. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

export interface RedisOptions {
  /** Lines of its configuration, such as `['--requirepass', 'secret']`. They come after `appendonly yes`. */
  readonly args?: readonly string[];
}

export class RedisServer {
  readonly port: number;
  readonly #folder: string;
  readonly #args: readonly string[];
  #process: ChildProcess | undefined;

  private constructor(port: number, args: readonly string[]) {
    this.port = port;
    this.#args = args;
    this.#folder = mkdtempSync(join(tmpdir(), 'cella-redis-'));
  }

  static async start({ args = [] }: RedisOptions = {}): Promise<RedisServer> {
    // Another process may take the port between the look and the start.
    for (let attempt = 1; ; attempt += 1) {
      const server = new RedisServer(await freePort(), args);
      try {
        await server.restart();
        return server;
      } catch (error) {
        await server.remove();
        if (attempt === 5) throw error;
      }
    }
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** On the same port, with what it has kept. */
  async restart(): Promise<void> {
    await this.stop();
    const settings = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#folder];
    const durable = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''];
    // The guard ends the server when this process ends, however it does: its stdin is closed then.
    const guarded = [...settings, ...durable, '--daemonize', 'no', '--loglevel', 'warning', ...this.#args];
    this.#process = spawn(process.execPath, ['-e', GUARD, '--', ...guarded], { stdio: ['pipe', 'pipe', 'inherit'] });
    const exited = once(this.#process, 'exit');
    await Promise.race([
      this.#answers(),
      exited.then(() => Promise.reject(new Error(`redis-server ended at once on port ${this.port}`))),
    ]);
    exited.catch(() => {}); // it may end whenever a test wants it to
  }

  /** On the same port, with nothing: its disk was lost. */
  async restartEmpty(): Promise<void> {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder);
    await this.restart();
  }

  /** What its own `redis-cli` prints. */
  async command(...words: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('redis-cli', ['-p', String(this.port), ...words]);
    return stdout.trim();
  }

  /** As after a loss of power: nothing is said to anybody. */
  async stop(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (!running || running.exitCode !== null) return;
    const exited = once(running, 'exit');
    running.stdin?.end();
    await exited;
  }

  /** It keeps its connections and answers nothing, until `thaw`. */
  async freeze(): Promise<void> {
    await this.#tellGuard('STOP');
  }

  async thaw(): Promise<void> {
    await this.#tellGuard('CONT');
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove();
  }

  async #tellGuard(word: string): Promise<void> {
    const { stdin, stdout } = this.#process ?? {};
    if (!stdin || !stdout) throw new Error('redis-server does not run');
    const done = once(stdout, 'data');
    stdin.write(`${word}\n`);
    await done;
  }

  /** Until it can be connected to and has read what it kept. */
  async #answers(): Promise<void> {
    while (!(await pings(this.port))) await delay(10);
  }
}

const GUARD = `
const { spawn } = require('node:child_process');
const server = spawn('redis-server', process.argv.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] });
server.on('exit', (code) => process.exit(code ?? 1));
server.on('error', (error) => { console.error(String(error)); process.exit(1); });
process.stdin.on('data', (data) => {
  for (const word of String(data).trim().split('\\n')) { server.kill('SIG' + word); console.log(word); }
});
process.stdin.on('end', () => server.kill('SIGKILL'));
`;

/** None of those that the system gives to connections: while the server is stopped, one of them would keep it away. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(12_000, 32_000);
    const server = createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)); // somebody has it
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!free) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

function pings(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.on('data', (data) => {
      socket.destroy();
      // With a password it refuses, which is an answer.
      resolve(/PONG|NOAUTH/.test(String(data)));
    });
    socket.on('error', () => resolve(false));
    socket.on('close', () => resolve(false));
  });
}
