/** A page of a real browser: opened, asked by scripts, and listened to. */

export type Message = Readonly<Record<string, unknown>>;

export interface Told {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly params?: Message;
  readonly result?: Message;
  readonly error?: { readonly message: string };
}

export class Page {
  readonly context: unknown;
  readonly send: (method: string, params?: Message) => Promise<Message>;
  readonly #listeners = new Set<(told: Told) => void>();

  constructor(context: unknown, send: Page['send']) {
    this.context = context;
    this.send = send;
  }

  /** Of what the page or its network does, as the protocol names it. */
  on(method: string, listener: (params: Message) => void): () => void {
    const one = (told: Told) => told.method === method && listener(told.params ?? {});
    this.#listeners.add(one);
    return () => this.#listeners.delete(one);
  }

  /** Resolves when it has loaded, or the address that it leads on to. */
  async open(url: string, end = url): Promise<void> {
    const arrived = this.arrival(end);
    const { errorText } = await this.send('Page.navigate', { url });
    if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
    await arrived;
  }

  /** Resolves when the next page with this address has loaded. */
  async arrival(url: string): Promise<void> {
    const loaded = Promise.withResolvers<void>();
    const wanted = new URL(url).href;
    let at: unknown;
    const forget = [
      this.on('Page.frameNavigated', ({ frame }) => {
        if (Object(frame).parentId === undefined) at = Object(frame).url;
      }),
      this.on('Page.loadEventFired', () => at === wanted && loaded.resolve()),
    ];
    await loaded.promise;
    for (const one of forget) one();
  }

  /** What a script of the page comes to, as JSON has it; what it throws is thrown. */
  async evaluate<T>(expression: string): Promise<T> {
    const options = { awaitPromise: true, returnByValue: true, userGesture: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, ...options });
    if (exceptionDetails) throw new Error(`the page threw ${JSON.stringify(exceptionDetails)}`);
    return Object(result).value as T;
  }

  /** Gives the page a function that has something done here, and resolves when it is done. */
  async offer(name: string, work: () => void | Promise<void>): Promise<void> {
    const ask = `${name}Asked`;
    this.on('Runtime.bindingCalled', async (called) => {
      if (called.name !== ask) return;
      await work();
      await this.evaluate(`${name}.done.shift()()`);
    });
    await this.send('Runtime.addBinding', { name: ask });
    const offered = `() => new Promise((done) => { ${name}.done.push(done); ${ask}(''); })`;
    await this.evaluate(`globalThis.${name} = Object.assign(${offered}, { done: [] }); 0`);
  }

  hear(told: Told): void {
    for (const listener of [...this.#listeners]) listener(told);
  }
}
