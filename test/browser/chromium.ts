/** A real browser: Debian's Chromium without a window, driven over its DevTools Protocol. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { processes } from '../support/processes/processes.ts';
import { type Message, Page, type Told } from './chromium-page.ts';

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-dev-shm-usage', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions'],
  ...['--no-proxy-server', '--remote-debugging-port=0', '--host-resolver-rules=MAP rebound.example 127.0.0.1'],
];

export class Chromium implements AsyncDisposable {
  readonly #program: ChildProcess;
  readonly #folder: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (told: Told) => void>();
  readonly #pages = new Map<string, (told: Told) => void>();
  #sent = 0;

  private constructor(program: ChildProcess, folder: string, socket: WebSocket) {
    this.#program = program;
    this.#folder = folder;
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => this.#hear(JSON.parse(String(data))));
    socket.addEventListener('close', () => {
      for (const [id, answer] of this.#waiting) answer({ id, error: { message: 'the browser has gone' } });
    });
  }

  static async launch(): Promise<Chromium> {
    const folder = await mkdtemp(join(tmpdir(), 'cella-chromium-'));
    // What it keeps outside of its profile is in the same folder.
    const env = { ...process.env, HOME: folder, TMPDIR: folder, XDG_RUNTIME_DIR: folder };
    const stdio = ['ignore', 'ignore', 'pipe'] satisfies ['ignore', 'ignore', 'pipe'];
    // In a group of its own, so that all of it can be ended at once.
    const program = spawn('chromium', [...FLAGS, `--user-data-dir=${folder}`], { env, stdio, detached: true });
    try {
      await once(program, 'spawn');
      const socket = new WebSocket(await addressOf(program));
      const open = Promise.withResolvers<void>();
      socket.addEventListener('open', () => open.resolve());
      socket.addEventListener('close', () => open.reject(new Error('the browser lets nobody in')));
      await open.promise;
      return new Chromium(program, folder, socket);
    } catch (error) {
      await end(program, folder);
      throw error;
    }
  }

  /** As another person: its cookies are those of no other page but the ones that are opened from it. */
  async page(): Promise<Page> {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    return await this.#pageIn(browserContextId);
  }

  /** Another tab of the same person. */
  async tab({ context }: Page): Promise<Page> {
    return await this.#pageIn(context);
  }

  /** To the browser, or to the page of a session. */
  async send(method: string, params: Message = {}, sessionId?: string): Promise<Message> {
    const id = ++this.#sent;
    const answer = new Promise<Told>((resolve) => this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
    const { result, error } = await answer;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result ?? {};
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.close();
    await end(this.#program, this.#folder);
  }

  async #pageIn(context: unknown): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId: context });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(context, (method, params) => this.send(method, params, String(sessionId)));
    this.#pages.set(String(sessionId), (told) => page.hear(told));
    for (const method of ['Page.enable', 'Runtime.enable', 'Network.enable']) await page.send(method);
    return page;
  }

  #hear(told: Told): void {
    if (told.id === undefined) this.#pages.get(told.sessionId ?? '')?.(told);
    else this.#waiting.get(told.id)?.(told);
    this.#waiting.delete(told.id ?? 0);
  }
}

/** It says on stderr where it listens, among much else; the rest is read away. */
async function addressOf({ stderr }: ChildProcess): Promise<string> {
  if (!stderr) throw new Error('nothing is heard of the browser');
  const said: string[] = [];
  return await new Promise<string>((resolve, reject) => {
    const lines = createInterface(stderr);
    lines.once('close', () => reject(new Error(`the browser has ended: ${said.join('\n')}`)));
    lines.on('line', (line) => {
      if (said.length < 50) said.push(line);
      const [, address] = /^DevTools listening on (ws:\S+)$/.exec(line) ?? [];
      if (address !== undefined) resolve(address);
    });
  });
}

async function end(program: ChildProcess, folder: string): Promise<void> {
  const { pid, exitCode, signalCode } = program;
  if (pid !== undefined) {
    const ended = exitCode === null && signalCode === null ? once(program, 'exit') : undefined;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
    await ended;
  }
  // What looks out for crashes is in a session of its own, and goes when it sees that nobody is left.
  while (processes().some(({ command }) => command.includes(folder))) await setTimeout(20);
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
}
