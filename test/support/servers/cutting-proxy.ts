/** A connection that breaks or lags when a test says so: TCP to a server, cut in the middle of whatever it carries. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

const REQUEST = /^[A-Z]+ \/\S* HTTP\/1\.1\r\n/;
const WEBSOCKET = /^upgrade: websocket/im;

export class CuttingProxy implements AsyncDisposable {
  readonly #server = createServer((client) => this.#carry(client));
  readonly #sockets = new Set<Socket>();
  /** What silences each connection, and the last request that came by it. */
  readonly #silencing = new Map<() => void, string>();
  /** Silences each connection by which such a request comes, as soon as that has been passed on. */
  silenceAfter: RegExp | undefined;
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

  /**
   * The connections whose last request is of this kind: nothing arrives any more, and neither side is told. Other
   * connections go on. Returns how many there were.
   */
  silence(request: RegExp = WEBSOCKET): number {
    const silencing = [...this.#silencing].filter(([, last]) => request.test(last));
    for (const [silence] of silencing) {
      silence();
      this.#silencing.delete(silence);
    }
    return silencing.length;
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
    let silent = false;
    const silence = () => {
      silent = true;
      for (const socket of [client, server]) socket.unpipe().resume();
    };
    client.on('data', (data) => {
      const text = data.toString('latin1');
      if (silent || !REQUEST.test(text)) return;
      if (this.silenceAfter?.test(text)) silence();
      else this.#silencing.set(silence, text);
    });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      const close = () => {
        this.#silencing.delete(silence);
        if (!silent) other.destroy();
      };
      socket.on('error', close);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        close();
      });
      socket.pipe(this.#lagging()).pipe(other);
    }
  }
}
