/** A connection that breaks or lags when a test says so: TCP to a server, cut in the middle of whatever it carries. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

export class CuttingProxy implements AsyncDisposable {
  readonly #server = createServer((client) => this.#carry(client));
  readonly #sockets = new Set<Socket>();
  /** How many connections there were. */
  connections = 0;
  /** Where it leads; another server may take its place. */
  target: URL;
  /** How much later everything arrives, either way. */
  latencyMs = 0;

  private constructor(target: string) {
    this.target = new URL(target);
  }

  static async to(target: string): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Every connection that there is, without a farewell. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #lagging(): Transform {
    return new Transform({
      transform: (data, _encoding, done) => {
        if (this.latencyMs === 0) return done(null, data);
        void delay(this.latencyMs).then(() => done(null, data));
      },
    });
  }

  #carry(client: Socket): void {
    this.connections++;
    const server = connect(Number(this.target.port), this.target.hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.once('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(this.#lagging()).pipe(other);
    }
  }
}
