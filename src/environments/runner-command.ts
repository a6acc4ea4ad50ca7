/** Runs one command of the runner in an environment: JSON lines in and out, and an error that says how it ended. */

import type { Writable } from 'node:stream';
import type { z } from 'zod';
import { settlesWithin } from '../lib/deadline.ts';
import { type Line, LineSplitter } from '../lib/line-splitter.ts';
import { SILENT_PIPE_MS } from '../lib/process-end.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { decodeError, RpcCode } from '../protocol/rpc-message.ts';
import { ErrorLine, LINE_BYTES } from '../protocol/runner-commands.ts';
import type { Environment, Process } from './environment.ts';

/** How the runner is started, and what it starts. Paths are as the environment sees them. */
export interface RunnerCommandLine {
  /** The program and its first arguments: `[node, cella-runner.mjs]`. */
  readonly argv: readonly string[];
  /** Where the agent's program was installed. */
  readonly programDir: string;
  /** Variables beside those that every program there has; never a key. */
  readonly env?: Readonly<Record<string, string>>;
  /** How long a command that prepares or reads may take, and how much of a transcript the host takes. */
  readonly limits?: { readonly commandMs?: number; readonly transcriptCharacters?: number };
}

export interface RunnerCommand<S extends z.ZodType> {
  readonly name: 'setup-session' | 'execute-query' | 'read-transcript';
  readonly lines: Iterable<object>;
  /** What its lines say, beside the one of an error. */
  readonly says: S;
  /** Called with a function that sends more lines. Without it, the input ends after `lines`. */
  readonly onInput?: (say: (line: object) => Promise<void>) => void;
  /** Whether a line tells a failure by itself: all else that ends with another code than 0 has ended without a word. */
  readonly tellsFailure?: (line: z.output<S>) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Ends when the reader stops. Throws the runner's own error, or RUNNER_GONE if it ended without one. */
export async function* runRunnerCommand<S extends z.ZodType>(
  primitive: Environment,
  { argv, env = {} }: RunnerCommandLine,
  { name, lines, says, onInput, tellsFailure = () => false, signal }: RunnerCommand<S>,
): AsyncGenerator<z.output<S>> {
  const running = await primitive.exec([...argv, name], { stdin: 'pipe', env, signal });
  // Its log is not for those who ask: it may speak of what they must not see.
  running.stderr.resume();
  const { stdin } = running;
  try {
    const say = (line: object) => write(stdin, `${JSON.stringify(line)}\n`);
    let unsaid: unknown;
    void sendAll(lines, say, onInput ? undefined : stdin).catch((error) => {
      unsaid = error;
      running.kill();
    });
    onInput?.(say);
    let last: z.output<S> | undefined;
    for await (const line of jsonLines(outputOf(running))) {
      const failure = ErrorLine.safeParse(line);
      if (failure.success) throw unsaid ?? failed(failure.data);
      const said = says.safeParse(line);
      if (!said.success) throw broken('a line that is none of its own');
      last = said.data;
      yield said.data;
    }
    const exit = await running.exited;
    if (unsaid !== undefined) throw unsaid;
    const told = last !== undefined && (exit.code === 0 || (exit.code !== undefined && tellsFailure(last)));
    if (!told) throw gone(name, exit);
  } finally {
    running.kill();
  }
}

async function sendAll(
  lines: Iterable<object>,
  say: (line: object) => Promise<void>,
  toEnd: Writable | undefined,
): Promise<void> {
  for (const line of lines) await say(line);
  toEnd?.end();
}

/** Resolves when there is room for more, or when the reader has gone. */
async function write(stdin: Writable | undefined, text: string): Promise<void> {
  if (Buffer.byteLength(text) > LINE_BYTES) {
    throw new CellaError('TOO_LARGE', `What the runner is told has ${LINE_BYTES} bytes at most.`);
  }
  await new Promise<void>((resolve) => {
    if (!stdin?.writable) resolve();
    else stdin.write(text, () => resolve());
  });
}

/** Ends with the pipe. One that is silent and open after the end of the runner is held by another process. */
async function* outputOf({ stdout, exited }: Process): AsyncGenerator<Uint8Array> {
  let over = false;
  let wake = () => {};
  const end = () => {
    over = true;
    wake();
  };
  exited.then(end, end);
  const chunks = stdout[Symbol.asyncIterator]();
  for (;;) {
    const next = chunks.next();
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    if (!over) await Promise.race([next, woken]);
    if (over && !(await settlesWithin(next, SILENT_PIPE_MS))) {
      stdout.destroy();
      return;
    }
    const { value, done } = await next;
    if (done) return;
    yield value;
  }
}

async function* jsonLines(output: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  const decoder = new LineSplitter(LINE_BYTES);
  for await (const chunk of output) for (const line of decoder.push(chunk)) yield parsedLine(line);
  const rest = decoder.end();
  if (rest) yield parsedLine(rest);
}

function parsedLine(line: Line): unknown {
  if (line.kind === 'cut') throw broken(`a line of more than ${LINE_BYTES} bytes`);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line.bytes));
  } catch {
    // The reason would quote the line, which may say anything.
    throw broken('a line that is no JSON');
  }
}

function failed({ error: { code, message, advice, details } }: ErrorLine): CellaError {
  return decodeError({ code: RpcCode.internal, message, data: { code, advice, ...(details && { details }) } });
}

function broken(what: string): CellaError {
  return new CellaError('RUNNER_PROTOCOL', `The runner wrote ${what}.`);
}

function gone(name: string, exit: ProcessExit): CellaError {
  const how = exit.signal === undefined ? `with code ${exit.code} and no answer` : `by ${exit.signal}`;
  const why = exit.outOfMemory ? ', as the memory that its place may have was used up' : '';
  return new CellaError('RUNNER_GONE', `The runner's ${name} ended ${how}${why}.`, { details: { ...exit } });
}
