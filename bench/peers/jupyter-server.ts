/** Jupyter's own server with one kernel, driven over its WebSocket, as its notebooks are. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { WebSocket } from 'ws';
import { CellaError } from '../../src/protocol/errors.ts';
import { freePorts } from './setup.ts';

const START_BOUND_MS = 60_000;
const RETRY_MS = 50;

interface Message {
  readonly channel: string;
  readonly header: { readonly msg_type: string };
  readonly parent_header: { readonly msg_id?: string };
  readonly content: { readonly status?: string; readonly execution_state?: string };
}

interface Request {
  readonly id: string;
  readonly done: PromiseWithResolvers<void>;
  status: string | undefined;
  idle: boolean;
}

/** Throws PEER_MISSING if it cannot be imported. */
export async function jupyterServerVersion(python: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(python, [
      '-c',
      'import jupyter_server; print(jupyter_server.__version__)',
    ]);
    return stdout.trim();
  } catch (cause) {
    throw new CellaError(
      'PEER_MISSING',
      `The benchmark compares the server with Jupyter's server, and ${python} cannot import it. On Debian: apt-get install python3-jupyter-server.`,
      { cause, details: { missing: 'jupyter_server', python } },
    );
  }
}

export class JupyterServer {
  readonly #child: ChildProcess;
  readonly #origin: string;
  readonly #token: string;
  readonly #session = randomUUID();
  /** Also runs when this process exits and cannot wait; the kernel then ends by itself. */
  readonly #kill = () => this.#child.kill('SIGKILL');
  #stderr = '';
  #kernel = '';
  #socket: WebSocket | undefined;
  #request: Request | undefined;
  #closing: Promise<void> | undefined;

  private constructor(python: string, place: Place) {
    this.#origin = `127.0.0.1:${place.port}`;
    this.#token = place.token;
    this.#child = spawn(python, ['-m', 'jupyter_server'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: place.folder,
      env: environment(place.folder),
    });
    process.once('exit', this.#kill);
    this.#child.stderr?.on('data', (chunk) => {
      this.#stderr = `${this.#stderr}${chunk}`.slice(-4096);
    });
    this.#child.once('error', (error) => this.#fail(error));
    this.#child.once('exit', () => this.#fail(new Error(`Jupyter's server ended. Its last words:\n${this.#stderr}`)));
  }

  /** Ready means that its kernel has answered over the WebSocket. */
  static async start(python: string, folder: string): Promise<JupyterServer> {
    const server = new JupyterServer(python, await prepare(join(folder, 'jupyter')));
    try {
      await server.#open();
      return server;
    } catch (error) {
      await server.close();
      throw error;
    }
  }

  /** Ends when the reply has arrived and the kernel is idle again: before that, output may be missing. */
  async run(code: string): Promise<void> {
    const content = { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false };
    const status = await this.#ask('execute_request', content);
    if (status !== 'ok') throw new Error(`Jupyter answered ${status} to ${code.slice(0, 80)}`);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#socket?.terminate();
    if (this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      // It ends its kernel first, if it still can.
      if (this.#kernel !== '') await this.#call('DELETE', `/api/kernels/${this.#kernel}`).catch(() => {});
      this.#kill();
      await ended;
    }
    process.off('exit', this.#kill);
  }

  async #open(): Promise<void> {
    await this.#answers();
    const { id } = (await this.#call('POST', '/api/kernels', { name: 'python3' })) as { id: string };
    this.#kernel = id;
    const path = `/api/kernels/${id}/channels?session_id=${this.#session}`;
    const socket = new WebSocket(`ws://${this.#origin}${path}`, { headers: this.#headers });
    this.#socket = socket;
    socket.on('message', (data) => this.#take(JSON.parse(String(data))));
    socket.on('error', (error) => this.#fail(error));
    await once(socket, 'open');
    await this.#ask('kernel_info_request', {});
  }

  async #answers(): Promise<void> {
    for (const deadline = performance.now() + START_BOUND_MS; ; ) {
      const answered = await this.#call('GET', '/api/status').then(
        () => true,
        () => false, // it is not listening yet
      );
      if (answered) return;
      if (this.#child.exitCode !== null || performance.now() > deadline) {
        throw new Error(`Jupyter's server did not get ready. Its last words:\n${this.#stderr}`);
      }
      await pause(RETRY_MS);
    }
  }

  async #call(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`http://${this.#origin}${path}`, {
      method,
      headers: this.#headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`Jupyter's server answered ${response.status} to ${method} ${path}`);
    const text = await response.text();
    return text === '' ? undefined : JSON.parse(text);
  }

  get #headers(): Record<string, string> {
    return { authorization: `token ${this.#token}` };
  }

  /** One at a time. */
  async #ask(type: string, content: object): Promise<string | undefined> {
    const request: Request = { id: randomUUID(), done: Promise.withResolvers(), status: undefined, idle: false };
    this.#request = request;
    const header = {
      msg_id: request.id,
      session: this.#session,
      username: 'bench',
      date: new Date().toISOString(),
      msg_type: type,
      version: '5.3',
    };
    const message = { channel: 'shell', header, parent_header: {}, metadata: {}, content, buffers: [] };
    this.#socket?.send(JSON.stringify(message));
    await request.done.promise;
    return request.status;
  }

  #take({ channel, header, parent_header, content }: Message): void {
    const request = this.#request;
    if (request === undefined || parent_header.msg_id !== request.id) return;
    if (channel === 'shell') request.status = content.status ?? '';
    if (header.msg_type === 'status' && content.execution_state === 'idle') request.idle = true;
    if (request.idle && request.status !== undefined) request.done.resolve();
  }

  #fail(error: Error): void {
    this.#request?.done.reject(error);
  }
}

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly token: string;
}

/** Its settings are in a file, so that no process list shows the token. */
async function prepare(folder: string): Promise<Place> {
  const [port = 0] = await freePorts(1);
  const token = randomBytes(24).toString('hex');
  const settings = { ip: '127.0.0.1', port, port_retries: 0, token, open_browser: false, allow_root: true };
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, 'jupyter_server_config.json');
  await writeFile(file, JSON.stringify({ ServerApp: { ...settings, root_dir: folder } }), { mode: 0o600 });
  return { folder, port, token };
}

function environment(folder: string): NodeJS.ProcessEnv {
  const { PYTHONDONTWRITEBYTECODE: _, ...rest } = process.env;
  const own = { JUPYTER_CONFIG_DIR: folder, JUPYTER_RUNTIME_DIR: folder, JUPYTER_DATA_DIR: folder };
  return { ...rest, ...own, IPYTHONDIR: join(folder, 'ipython') };
}
