/** A provider that lies: it speaks Anthropic's stream, and puts into it whatever a test has written. */

import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

type Fields = Readonly<Record<string, unknown>>;

export interface Block extends Fields {
  readonly type: string;
}

/** One answer: its blocks, and fields that belong nowhere or say too much. */
export interface Lie {
  readonly blocks: readonly Block[];
  readonly start?: Fields;
  readonly delta?: Fields;
  readonly beside?: Fields;
}

export class LyingModel implements AsyncDisposable {
  readonly #server: Server;
  /** What is still to be said, answer by answer; then a plain ending. */
  readonly script: Lie[] = [];
  readonly seen: { readonly headers: IncomingHttpHeaders; readonly body: Fields }[] = [];
  #said = 0;

  private constructor() {
    this.#server = createServer(async (incoming, outgoing) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      const body = JSON.parse(Buffer.concat(chunks).toString() || '{}');
      this.seen.push({ headers: incoming.headers, body });
      outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
      // Titles and the like are asked for without tools: they take nothing off the script.
      const lie = Array.isArray(body.tools) && body.tools.length > 0 ? this.script.shift() : undefined;
      const events = eventsOf(lie ?? { blocks: [{ type: 'text', text: 'Done.' }] }, `msg_${++this.#said}`);
      for (const event of events) outgoing.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      outgoing.end();
    });
  }

  static async start(): Promise<LyingModel> {
    const model = new LyingModel();
    model.#server.listen(0, '127.0.0.1');
    await once(model.#server, 'listening');
    return model;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

let uses = 0;

export function toolUse(name: string, input: Fields, more: Fields = {}): Block & { readonly id: string } {
  return { type: 'tool_use', id: `toolu_${++uses}`, name, input, ...more };
}

function eventsOf({ blocks, start, delta, beside }: Lie, id: string): readonly Block[] {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id, type: 'message', role: 'assistant', model: 'claude-sonnet-5', content: [], usage };
  const stop_reason = blocks.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn';
  return [
    { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null, ...start } },
    ...blocks.flatMap(blockEvents),
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null, ...delta }, usage, ...beside },
    { type: 'message_stop' },
  ];
}

function blockEvents(block: Block, index: number): readonly Block[] {
  const stop = { type: 'content_block_stop', index };
  if (block.type === 'text') {
    const told = { type: 'content_block_delta', index, delta: { type: 'text_delta', text: block.text } };
    return [{ type: 'content_block_start', index, content_block: { type: 'text', text: '' } }, told, stop];
  }
  if (block.input === undefined) return [{ type: 'content_block_start', index, content_block: block }, stop];
  const partial_json = JSON.stringify(block.input);
  return [
    { type: 'content_block_start', index, content_block: { ...block, input: {} } },
    { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json } },
    stop,
  ];
}
