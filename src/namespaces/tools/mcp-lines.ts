/** Messages of an MCP server, one in a line, out of what it writes: in bounded memory and bounded time. */

import { deserializeMessage, type JSONRPCMessage } from '@modelcontextprotocol/client';

const MOST_LINE_BYTES = 16 * 1024 * 1024;
/** Servers may chat on stdout by mistake, a little. */
const MOST_NOISE = 1000;

export class MessageLines {
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #noise = 0;

  /** Throws where the server does not speak MCP. */
  push(chunk: Buffer): JSONRPCMessage[] {
    const messages: JSONRPCMessage[] = [];
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...this.#pending, chunk.subarray(from, end)])
        .toString()
        .trim();
      this.#pending = [];
      this.#pendingBytes = 0;
      from = end + 1;
      if (line !== '') messages.push(...this.#read(line));
    }
    const rest = chunk.subarray(from);
    this.#pending.push(rest);
    this.#pendingBytes += rest.length;
    if (this.#pendingBytes > MOST_LINE_BYTES) {
      throw new Error(`it wrote a message of more than ${MOST_LINE_BYTES / 1024 / 1024} MB`);
    }
    return messages;
  }

  #read(line: string): JSONRPCMessage[] {
    try {
      if (line.startsWith('{')) return [deserializeMessage(line)];
    } catch {
      // Counted as what it is: a line that is no message.
    }
    this.#noise++;
    if (this.#noise > MOST_NOISE) {
      throw new Error(`it wrote lines to stdout that are no messages: ${JSON.stringify(line.slice(0, 80))}`);
    }
    return [];
  }
}
