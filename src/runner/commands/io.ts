/** How a command is asked and answers: one line of JSON in, lines of JSON out. */

import type { Readable, Writable } from 'node:stream';
import type { z } from 'zod';
import { type Line, LineSplitter } from '../../lib/line-splitter.ts';
import { CellaError, errorCodes } from '../../protocol/errors.ts';
import { describeFirstIssue } from '../../protocol/rpc-peer.ts';
import { type RpcPort, writerOf } from '../../protocol/rpc-streams.ts';
import { type ErrorLine, LINE_BYTES } from '../../protocol/runner-commands.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The lines of the input as JSON; blank ones are left out. INVALID_REQUEST and TOO_LARGE for what is no such line. */
export async function* readJson(input: Readable): AsyncGenerator<unknown> {
  const decoder = new LineSplitter(LINE_BYTES);
  for await (const chunk of input) for (const line of decoder.push(chunk)) yield* parsed(line);
  const last = decoder.end();
  if (last) yield* parsed(last);
}

function* parsed(line: Line): Generator<unknown> {
  if (line.kind === 'cut') throw new CellaError('TOO_LARGE', `A line of the input is longer than ${LINE_BYTES} bytes.`);
  let json: unknown;
  try {
    const text = utf8.decode(line.bytes);
    if (text.trim() === '') return;
    json = JSON.parse(text);
  } catch {
    // The reason would quote the line, which may hold a key.
    throw new CellaError('INVALID_REQUEST', 'A line of the input is not JSON.');
  }
  yield json;
}

export async function firstLine<S extends z.ZodType>(lines: AsyncGenerator<unknown>, schema: S): Promise<z.output<S>> {
  const { value, done } = await lines.next();
  if (done) throw new CellaError('INVALID_REQUEST', 'The command reads one line of JSON, and there was none.');
  return check(schema, value);
}

export function check<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw new CellaError(
    'INVALID_REQUEST',
    `The input is not what the command takes: ${describeFirstIssue(outcome.error)}.`,
    {
      advice: 'docs/runner.md shows every field.',
    },
  );
}

export class JsonOutput {
  readonly #write: RpcPort['write'];

  constructor(output: Writable) {
    this.#write = writerOf(output);
  }

  /** Resolves when there is room for more; rejects where nobody reads. */
  async write(line: object): Promise<void> {
    await this.#write(`${JSON.stringify(line)}\n`);
  }

  async fail(error: unknown): Promise<void> {
    await this.write({ type: 'error', error: told(error) } satisfies ErrorLine);
  }
}

function told(error: unknown): ErrorLine['error'] {
  if (error instanceof CellaError) return { ...error.toJSON() };
  console.error(error);
  return { code: 'INTERNAL', message: 'The command failed; its stderr tells why.', advice: errorCodes.INTERNAL.advice };
}
