/** Input from elsewhere than a prompt: the LineSource port, lines from a pipe, and a file or stdin as text. */

import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { onAbort } from '../../lib/abort.ts';
import { systemCode } from '../../lib/values.ts';
import { UsageError } from '../command-errors.ts';

export interface LineRequest {
  readonly prompt: string;
  /** Does not show the line while it is typed. */
  readonly password?: boolean;
  /** Ignores text typed before this read, so that nothing pasted can answer. That text waits for the next read. */
  readonly ignoreTypeahead?: boolean;
  /** Keeps the line for the arrow keys, and lets Tab complete it. */
  readonly complete?: (line: string) => Promise<readonly [matches: readonly string[], replaced: string]>;
  /** Stops waiting for the line. Text typed so far is dropped. */
  readonly signal?: AbortSignal;
}

export type InputLine =
  | { readonly kind: 'line'; readonly text: string }
  | { readonly kind: 'end' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'aborted' };

export interface LineSource {
  /** Reads run one at a time: the next begins when the previous one has ended. */
  read(request: LineRequest): Promise<InputLine>;
  close(): void;
}

/** A stdin that has been read to its end. */
export const emptyInput: LineSource = { read: async () => ({ kind: 'end' }), close: () => {} };

export class PipedLines implements LineSource {
  readonly #input: Readable;
  readonly #showPrompt: (prompt: string) => Promise<void>;
  readonly #decoder = new TextDecoder();
  #chunks: AsyncIterator<Uint8Array> | undefined;
  /** A pending chunk: an aborted read leaves it to the next read. */
  #coming: Promise<IteratorResult<Uint8Array>> | undefined;
  #text = '';
  /** How much of the text has been searched for a line end. */
  #searched = 0;
  #ended = false;

  constructor(input: Readable, showPrompt: (prompt: string) => Promise<void>) {
    this.#input = input;
    this.#showPrompt = showPrompt;
  }

  async read({ prompt, signal }: LineRequest): Promise<InputLine> {
    if (prompt !== '') await this.#showPrompt(prompt);
    for (;;) {
      const line = this.#take();
      if (line !== undefined) return { kind: 'line', text: line };
      if (this.#ended) return { kind: 'end' };
      const chunk = await this.#nextChunk(signal);
      if (chunk === 'aborted') return { kind: 'aborted' };
      this.#ended = chunk.done === true;
      this.#text += chunk.done
        ? this.#decoder.decode()
        : this.#decoder.decode(Buffer.from(chunk.value), { stream: true });
    }
  }

  close(): void {
    this.#ended = true;
    this.#text = '';
    if (this.#chunks) this.#input.destroy();
  }

  #take(): string | undefined {
    const end = this.#text.indexOf('\n', this.#searched);
    if (end < 0 && (!this.#ended || this.#text === '')) {
      this.#searched = this.#text.length;
      return undefined;
    }
    const line = end < 0 ? this.#text : this.#text.slice(0, end);
    this.#text = end < 0 ? '' : this.#text.slice(end + 1);
    this.#searched = 0;
    return line.endsWith('\r') ? line.slice(0, -1) : line;
  }

  async #nextChunk(signal: AbortSignal | undefined): Promise<IteratorResult<Uint8Array> | 'aborted'> {
    if (signal?.aborted) return 'aborted';
    this.#chunks ??= this.#input[Symbol.asyncIterator]();
    // A stdin that cannot be read, or was destroyed, has no more lines.
    this.#coming ??= this.#chunks.next().catch((): IteratorResult<Uint8Array> => ({ done: true, value: undefined }));
    const aborted = Promise.withResolvers<'aborted'>();
    using _ = onAbort(signal, () => aborted.resolve('aborted'));
    const chunk = await Promise.race([this.#coming, aborted.promise]);
    if (chunk !== 'aborted') this.#coming = undefined;
    return chunk;
  }
}

interface TextRequest {
  readonly stdin: Readable;
  /** Advice for a file that cannot be read. */
  readonly advice: string;
}

export async function readText(file: string, { stdin, advice }: TextRequest): Promise<string> {
  if (file !== '-') return decode(await readBytes(file, advice), file);
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk));
  return decode(Buffer.concat(chunks), 'the text on stdin');
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EISDIR: 'is a folder',
  EACCES: 'cannot be read by this user',
};

async function readBytes(path: string, advice: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw unreadable(path, error, advice);
  }
}

export function unreadable(path: string, error: unknown, advice: string): UsageError {
  const code = systemCode(error) ?? '';
  return new UsageError(`${path} ${reasons[code] ?? `cannot be read (${code})`}.`, advice);
}

/** Removes a byte order mark. */
function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`${name} is not UTF-8 text.`, 'Save it as UTF-8 and run it again.');
  }
}
