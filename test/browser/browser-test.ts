/** A server that is looked at with a real browser, over a connection that can be cut. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { scratchFolder } from '../support/kernels/session.ts';
import { CuttingProxy } from '../support/servers/cutting-proxy.ts';
import { TestServer } from '../support/servers/server.ts';
import { Chromium } from './chromium.ts';
import type { Page } from './chromium-page.ts';

export class BrowserTest implements AsyncDisposable {
  readonly #dataDir: string;
  readonly #client: string;
  readonly proxy: CuttingProxy;
  readonly chromium: Chromium;
  cella: TestServer;

  private constructor(dataDir: string, client: string, cella: TestServer, proxy: CuttingProxy, chromium: Chromium) {
    this.#dataDir = dataDir;
    this.#client = client;
    this.cella = cella;
    this.proxy = proxy;
    this.chromium = chromium;
  }

  static async start(): Promise<BrowserTest> {
    await using parts = new AsyncDisposableStack();
    const dataDir = await scratchFolder();
    const client = await clientForPages();
    const cella = parts.use(await TestServer.start({ dataDir }));
    const proxy = parts.use(await CuttingProxy.to(cella.url));
    const browserTest = new BrowserTest(dataDir, client, cella, proxy, await Chromium.launch());
    parts.move();
    return browserTest;
  }

  /** Where the browser finds it. */
  get url(): string {
    return this.proxy.url;
  }

  async loginLink(): Promise<string> {
    const { json } = await this.cella.call('POST /v1/login-codes');
    return new URL(String(json.path), this.url).href;
  }

  /** Opens the link and presses its button; resolves when the documentation is there. */
  async logIn(page: Page, link: string): Promise<void> {
    await page.open(link);
    await this.press(page);
  }

  async press(page: Page): Promise<void> {
    const arrived = page.arrival(`${this.url}/docs`);
    await page.evaluate('document.querySelector("button").click(); 0');
    await arrived;
  }

  /** A page of the server's own, of somebody who has logged in, with the client in it as `cella`. */
  async loggedIn(): Promise<Page> {
    const page = await this.chromium.page();
    await this.logIn(page, await this.loginLink());
    await page.send('Page.setBypassCSP', { enabled: true });
    await page.open(`${this.url}/docs`);
    await page.evaluate(`${this.#client}; globalThis.cella = cella; 0`);
    return page;
  }

  /** The same server again, at another port behind the same address. */
  async restart(): Promise<void> {
    await this.cella[Symbol.asyncDispose]();
    this.cella = await TestServer.start({ dataDir: this.#dataDir });
    this.proxy.target = new URL(this.cella.url);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.chromium[Symbol.asyncDispose]();
    await this.proxy[Symbol.asyncDispose]();
    await this.cella[Symbol.asyncDispose]();
  }
}

/** Has a function run in the page; nothing of here but what it is given goes along. */
export function within<A extends unknown[], R>(
  page: Page,
  script: (...given: A) => R,
  ...given: A
): Promise<Awaited<R>> {
  return page.evaluate(`(${script})(...${JSON.stringify(given)})`);
}

/** A page that is none of the server's own, on this machine by this name. */
export async function otherSite(name: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<p>another</p>'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.close();
    server.closeAllConnections();
    if (server.listening) await once(server, 'close');
  };
  return { url: `http://${name}:${(server.address() as AddressInfo).port}`, [Symbol.asyncDispose]: close };
}

async function clientForPages(): Promise<string> {
  const input = join(import.meta.dirname, '..', '..', 'src', 'client', 'index.ts');
  const bundle = await rolldown({ input, platform: 'browser', external: [/unix-transport/], logLevel: 'silent' });
  return (await bundle.generate({ format: 'iife', name: 'cella' })).output[0].code;
}
