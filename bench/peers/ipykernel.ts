/** An ipykernel in its own process, over ZeroMQ and the Jupyter protocol 5.3. */

import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Dealer, Subscriber } from 'zeromq';
import { freePorts, type Peer } from './setup.ts';

const START_BOUND_MS = 60_000;
const IOPUB_RETRY_MS = 10;

interface Connection {
  readonly file: string;
  readonly key: string;
  readonly ports: readonly number[];
}

interface Request {
  readonly onOutput: (text: string) => void;
  readonly resolve: (status: string) => void;
  readonly reject: (error: Error) => void;
  readonly untilIdle: boolean;
  status: string | undefined;
  idle: boolean;
}

export class IPykernel implements AsyncDisposable {
  readonly #key: string;
  readonly #session = randomUUID();
  readonly #requests = new Map<string, Request>();
  readonly #child: ChildProcess;
  readonly #connectionFile: string;
  readonly #shell: Dealer;
  readonly #iopub: Subscriber;
  /** Also runs when this process exits and cannot wait. */
  readonly #kill = () => this.#child.kill('SIGKILL');
  #sent = 0;
  #stderr = '';
  #closing: Promise<void> | undefined;

  private constructor(peer: Peer, folder: string, connection: Connection) {
    this.#key = connection.key;
    this.#connectionFile = connection.file;
    this.#child = spawn(peer.python, launch(connection.file), {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: environment(folder),
    });
    process.once('exit', this.#kill);
    this.#child.stderr?.on('data', (chunk) => {
      this.#stderr = `${this.#stderr}${chunk}`.slice(-4096);
    });
    this.#child.once('error', (error) => this.#fail(error));
    this.#child.once('exit', () => this.#fail(new Error(`ipykernel ended. Its last words:\n${this.#stderr}`)));
    const options = { linger: 0, reconnectInterval: 5 };
    this.#shell = new peer.zeromq.Dealer(options);
    this.#iopub = new peer.zeromq.Subscriber({ ...options, receiveHighWaterMark: 0 });
    this.#shell.connect(`tcp://127.0.0.1:${connection.ports[0]}`);
    this.#iopub.connect(`tcp://127.0.0.1:${connection.ports[1]}`);
    this.#iopub.subscribe();
    void this.#read(this.#shell, (message) => this.#onReply(message));
    void this.#read(this.#iopub, (message) => this.#onPublished(message));
  }

  /** Ready means that it answers, and that its output channel is subscribed to. numpy is imported by then. */
  static async start(peer: Peer, folder: string): Promise<IPykernel> {
    const kernel = new IPykernel(peer, folder, await makeConnection(folder));
    const bound = setTimeout(() => kernel.#fail(new Error('ipykernel did not get ready in a minute.')), START_BOUND_MS);
    try {
      await kernel.#request('kernel_info_request', {}, { untilIdle: false });
      await kernel.#subscribed();
      return kernel;
    } catch (error) {
      await kernel.close();
      throw error;
    } finally {
      clearTimeout(bound);
    }
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('ipykernel did not start.');
    return this.#child.pid;
  }

  /** Ends when the reply and all output have arrived: the kernel is idle again. */
  async run(code: string, onOutput: (text: string) => void = () => {}): Promise<void> {
    const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
    const status = await this.#request('execute_request', content, { untilIdle: true, onOutput });
    if (status !== 'ok') throw new Error(`ipykernel answered ${status} to ${code.slice(0, 80)}`);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#fail(new Error('ipykernel was closed.'));
    this.#shell.close();
    this.#iopub.close();
    if (this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#kill();
      await ended;
    }
    process.off('exit', this.#kill);
    await rm(this.#connectionFile, { force: true });
  }

  /** Output from before the kernel got the subscription is lost, so this asks repeatedly until an answer arrives. */
  async #subscribed(): Promise<void> {
    const answered = Promise.withResolvers<void>();
    const ask = () => {
      this.#request('kernel_info_request', {}, { untilIdle: true }).then(() => answered.resolve(), answered.reject);
    };
    ask();
    const again = setInterval(ask, IOPUB_RETRY_MS);
    try {
      await answered.promise;
    } finally {
      clearInterval(again);
    }
  }

  #request(
    type: string,
    content: object,
    options: { untilIdle: boolean; onOutput?: (text: string) => void },
  ): Promise<string> {
    const id = `${this.#session}_${this.#sent++}`;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const { untilIdle, onOutput = () => {} } = options;
    this.#requests.set(id, { resolve, reject, onOutput, untilIdle, status: undefined, idle: false });
    this.#shell.send(encodeMessage(this.#key, { id, session: this.#session, type }, content)).catch(reject);
    return promise;
  }

  #onReply(message: JupyterMessage): void {
    const request = this.#requests.get(message.parent);
    if (request === undefined) return;
    request.status = String(message.content.status);
    this.#settle(message.parent, request);
  }

  #onPublished(message: JupyterMessage): void {
    const request = this.#requests.get(message.parent);
    if (request === undefined) return;
    if (message.type === 'stream') request.onOutput(String(message.content.text));
    if (message.type === 'status' && message.content.execution_state === 'idle') {
      request.idle = true;
      this.#settle(message.parent, request);
    }
  }

  #settle(id: string, request: Request): void {
    if (request.status === undefined || (request.untilIdle && !request.idle)) return;
    this.#requests.delete(id);
    request.resolve(request.status);
  }

  #fail(error: Error): void {
    for (const request of this.#requests.values()) request.reject(error);
    this.#requests.clear();
  }

  async #read(socket: AsyncIterable<Buffer[]>, take: (message: JupyterMessage) => void): Promise<void> {
    try {
      for await (const frames of socket) take(decodeMessage(this.#key, frames));
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

async function makeConnection(folder: string): Promise<Connection> {
  const ports = await freePorts(5);
  const key = randomBytes(16).toString('hex');
  const file = join(folder, `kernel-${randomUUID()}.json`);
  const [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports;
  const address = { ip: '127.0.0.1', transport: 'tcp', key, signature_scheme: 'hmac-sha256' };
  const connection = { ...address, shell_port, iopub_port, stdin_port, control_port, hb_port };
  await writeFile(file, JSON.stringify(connection), { mode: 0o600 });
  return { file, key, ports };
}

/** Without its history file, because Cella has none. */
function launch(connectionFile: string): string[] {
  const options = ['--HistoryManager.enabled=False', '--IPKernelApp.exec_lines=import numpy'];
  return ['-m', 'ipykernel_launcher', '-f', connectionFile, ...options];
}

function environment(folder: string): NodeJS.ProcessEnv {
  const { PYTHONDONTWRITEBYTECODE: _, ...rest } = process.env;
  // It ends when the process named here has ended.
  return { ...rest, IPYTHONDIR: join(folder, 'ipython'), JPY_PARENT_PID: String(process.pid) };
}

const DELIMITER = '<IDS|MSG>';

export interface JupyterMessage {
  readonly type: string;
  /** The id of the request that this message belongs to. */
  readonly parent: string;
  readonly content: Readonly<Record<string, unknown>>;
}

export function encodeMessage(
  key: string,
  header: { readonly id: string; readonly session: string; readonly type: string },
  content: object,
): (string | Buffer)[] {
  const { id, session, type } = header;
  const date = new Date().toISOString();
  const full = { msg_id: id, session, username: 'bench', date, msg_type: type, version: '5.3' };
  const parts = [full, {}, {}, content].map((part) => Buffer.from(JSON.stringify(part)));
  return [DELIMITER, sign(key, parts), ...parts];
}

export function decodeMessage(key: string, frames: readonly Buffer[]): JupyterMessage {
  const start = frames.findIndex((frame) => frame.length === DELIMITER.length && frame.toString() === DELIMITER);
  const [signature, header, parent, metadata, content] = frames.slice(start + 1);
  if (start < 0 || !signature || !header || !parent || !metadata || !content) {
    throw new Error('ipykernel sent a message with parts missing.');
  }
  if (signature.toString() !== sign(key, [header, parent, metadata, content])) {
    throw new Error('ipykernel sent a message with a wrong signature.');
  }
  return {
    type: JSON.parse(header.toString()).msg_type,
    parent: JSON.parse(parent.toString()).msg_id ?? '',
    content: JSON.parse(content.toString()),
  };
}

function sign(key: string, parts: readonly Buffer[]): string {
  const hmac = createHmac('sha256', key);
  for (const part of parts) hmac.update(part);
  return hmac.digest('hex');
}
