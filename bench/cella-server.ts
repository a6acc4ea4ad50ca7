/**
 * A server for the benchmark, and its client: HTTP on one kept-alive connection, and a WebSocket. Each has a session
 * of its own, so that nobody follows the session used over HTTP.
 */

import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { WebSocket } from 'ws';
import { Cella } from '../test/support/cli/command.ts';
import { Served } from '../test/support/servers/serve-process.ts';

export class CellaServer {
  readonly #cella: Cella;
  readonly #served: Served;
  readonly #session: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #socket: WebSocket;
  /** Runs when this process exits and cannot wait. */
  readonly #kill = () => {
    this.#served.started.child.kill('SIGKILL');
    this.#cella[Symbol.dispose]();
  };
  #sent = 0;
  #closing: Promise<void> | undefined;
  #result: PromiseWithResolvers<string> | undefined;

  private constructor(cella: Cella, served: Served, session: string, followed: string) {
    this.#cella = cella;
    this.#served = served;
    this.#session = session;
    process.once('exit', this.#kill);
    const address = `${served.url.replace('http', 'ws')}/v1/sessions/${followed}/ws`;
    this.#socket = new WebSocket(address, { headers: this.#headers });
    this.#socket.on('error', (error) => this.#result?.reject(error));
    this.#socket.on('message', (data) => {
      const { type, status, error } = JSON.parse(String(data));
      if (type === 'result') this.#result?.resolve(status);
      if (type === 'error') this.#result?.reject(new Error(`The server answered ${error?.code}.`));
    });
  }

  /** With the defaults of `cella serve`, logs included; those go to a file. */
  static async start(python: string): Promise<CellaServer> {
    const cella = new Cella();
    try {
      const logs = ['--log-level', 'info', '--log-file', `${cella.temporary}/log`];
      // One client sends more requests in a row than the default rate allows.
      const served = await Served.start(cella, [...logs, '--python', python, '--rate', '100000']);
      const session = (agentKey: string) => served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey } });
      const [asked, followed] = [await session('asked'), await session('followed')];
      const client = new CellaServer(cella, served, asked.id, followed.id);
      await once(client.#socket, 'open');
      return client;
    } catch (error) {
      cella[Symbol.dispose]();
      throw error;
    }
  }

  async overHttp(code: string): Promise<void> {
    const answered = Promise.withResolvers<string>();
    const sent = request(`${this.#served.url}/v1/sessions/${this.#session}/execute`, {
      method: 'POST',
      agent: this.#agent,
      headers: { ...this.#headers, 'content-type': 'application/json' },
    });
    sent.on('error', answered.reject);
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => answered.resolve(text));
    });
    sent.end(JSON.stringify({ code }));
    checkOk(JSON.parse(await answered.promise).status, code);
  }

  /** Ends with the event of the result, which comes after it is durable. */
  async overWebSocket(code: string): Promise<void> {
    this.#result = Promise.withResolvers();
    this.#socket.send(JSON.stringify({ type: 'execute', id: this.#sent++, code }));
    checkOk(await this.#result.promise, code);
    this.#result = undefined;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#result?.reject(new Error('The server was closed.'));
    this.#socket.terminate();
    this.#agent.destroy();
    await this.#served[Symbol.asyncDispose]();
    process.off('exit', this.#kill);
    this.#cella[Symbol.dispose]();
  }

  get #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#served.token}` };
  }
}

function checkOk(status: unknown, code: string): void {
  if (status !== 'ok') throw new Error(`The server answered ${status} to ${code.slice(0, 80)}`);
}
