/** A stand-in model on loopback: aimock, which a word in the prompt tells what to answer; and faults, which it has not. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LLMock } from '@copilotkit/aimock';
import { type Asked, answerTo } from './model-script.ts';

interface Message {
  readonly role: string;
  readonly content?: unknown;
}

export interface Seen {
  readonly model: string;
  readonly key: string | undefined;
  /** The whole request as text, to look for what must be in it, or must not. */
  readonly text: string;
}

export class Model implements AsyncDisposable {
  readonly #mock: LLMock;
  readonly #host: string;
  readonly #front: Server;
  readonly seen: Seen[] = [];
  /** Those that are never answered: closed with the model. */
  readonly #held = new Set<ServerResponse>();
  readonly #hangs = new Set<() => void>();
  /** Those that have hung once already. */
  readonly #hung = new Set<string>();

  private constructor(mock: LLMock, host: string) {
    this.#mock = mock;
    this.#host = host;
    this.#front = createServer((incoming, outgoing) => void this.#take(incoming, outgoing));
  }

  /** `host`: another address of loopback, for whoever is to reach it through a proxy. */
  static async start({ host = '127.0.0.1' } = {}): Promise<Model> {
    const mock = new LLMock({ host: '127.0.0.1', port: 0, chunkSize: 12, journalMaxEntries: 1 });
    const tagged = (tag: string) => (body: { messages: readonly Message[] }) => asked(body.messages).tag === tag;
    mock.on({ predicate: tagged('slow') }, ({ messages }) => answerTo(asked(messages)), { latency: 20 });
    mock.on({ predicate: () => true }, ({ messages }) => answerTo(asked(messages)));
    await mock.start();
    const model = new Model(mock, host);
    model.#front.listen(0, host);
    await once(model.#front, 'listening');
    return model;
  }

  get url(): string {
    const { port } = this.#front.address() as AddressInfo;
    return `http://${this.#host}:${port}`;
  }

  /** Resolves when a request hangs. */
  hangs(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hangs.add(resolve);
    return promise;
  }

  /** Nobody listens at its address until what is given is disposed of. */
  async leave(): Promise<AsyncDisposable> {
    const { port } = this.#front.address() as AddressInfo;
    const over = once(this.#front, 'close');
    this.#front.close();
    this.#front.closeAllConnections();
    await over;
    const back = async () => {
      const listening = once(this.#front, 'listening');
      this.#front.listen(port, this.#host);
      await listening;
    };
    return { [Symbol.asyncDispose]: back };
  }

  async #take(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const body = text === '' ? {} : JSON.parse(text);
    const { 'x-api-key': key } = incoming.headers;
    if (text !== '') this.seen.push({ model: String(body.model), key: key?.toString(), text });
    const { tag, rest } = asked(body.messages ?? []);
    const status = /^err(\d{3})$/.exec(tag)?.[1];
    if (status !== undefined) return fail(outgoing, Number(status));
    if (tag === 'hang' || (tag === 'hangonce' && !this.#hung.has(rest))) {
      this.#hung.add(rest);
      return this.#hold(outgoing);
    }
    if (tag === 'garbage') return spout(outgoing);
    const { method, url, headers } = incoming;
    const passed = request(`${this.#mock.url}${url}`, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
      outgoing.on('close', () => answer.destroy());
    });
    passed.on('error', () => outgoing.destroy());
    passed.end(text);
  }

  #hold(outgoing: ServerResponse): void {
    this.#held.add(outgoing);
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
    outgoing.write(': wait\n\n');
    for (const tell of this.#hangs) tell();
    this.#hangs.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#held) one.destroy();
    this.#front.closeAllConnections();
    this.#front.close();
    await this.#mock.stop();
  }
}

/** The header keeps the agent from trying for minutes. */
function fail(outgoing: ServerResponse, status: number): void {
  outgoing.writeHead(status, { 'content-type': 'application/json', 'x-should-retry': 'false' });
  outgoing.end(JSON.stringify({ type: 'error', error: { type: 'api_error', message: `stand-in ${status}` } }));
}

function spout(outgoing: ServerResponse): void {
  outgoing.writeHead(200, { 'content-type': 'text/event-stream', 'x-should-retry': 'false' });
  outgoing.end(`event: message_start\ndata: {"type":"mess\n\nevent: \u0000\ndata: }{\n\n${'\ufffd'.repeat(1000)}`);
}

/** The last `#word` that the person said, the words after it, and the results of tools since. */
function asked(messages: readonly Message[]): Asked {
  const results: string[] = [];
  for (const message of messages.toReversed()) {
    const text = inWords(textOf(message.content));
    if (message.role === 'tool') results.unshift(text);
    if (message.role !== 'user') continue;
    const found = [...text.matchAll(/(?:^|\s)#([a-z0-9]+)(?: ([^\n]*))?/g)].at(-1);
    const earlier = messages.flatMap(({ role, content }) =>
      role === 'user' ? (textOf(content).match(/#[a-z0-9]+/g) ?? []) : [],
    );
    if (found) return { tag: found[1] ?? '', rest: found[2] ?? '', results, earlier };
  }
  return { tag: '', rest: '', results, earlier: [] };
}

/** Prompts of the pages, which are run as they are written there. */
const documented: readonly (readonly [prompt: string, word: string])[] = [
  ['Write a greeting into hello.txt', '#write /agent/workspace/hello.txt good day'],
];

function inWords(text: string): string {
  return documented.reduce((said, [prompt, word]) => said.replace(prompt, word), text);
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (typeof part?.text === 'string' ? part.text : '')).join('\n');
}
