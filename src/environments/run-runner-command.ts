/** Runs one command of the runner in an environment: JSON lines in and out, and an error that reports a failed end. */

import type { Writable } from 'node:stream';
import type { z } from 'zod';
import { boundedJsonLines, type LineProblem } from '../lib/line-splitter.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { decodeError, RpcCode } from '../protocol/rpc-message.ts';
import { ErrorLine, LINE_BYTES } from '../protocol/runner-commands.ts';
import type { Environment } from './environment.ts';

/** How to start the runner. Paths are as seen in the environment. */
export interface RunnerCommandLine {
  /** The program and its first arguments: `[node, cella-runner.mjs]`. */
  readonly argv: readonly string[];
  /** The folder of the installed agent program. */
  readonly programDir: string;
  /** Variables in addition to those of every program there; never a key. */
  readonly env?: Readonly<Record<string, string>>;
  /** The timeout of commands that prepare or read, and the longest transcript that the host accepts. */
  readonly limits?: { readonly commandMs?: number; readonly transcriptCharacters?: number };
}

interface RunnerCommand<S extends z.ZodType> {
  readonly name: 'setup-session' | 'execute-query' | 'read-transcript';
  readonly lines: Iterable<object>;
  /** The schema of its lines, apart from the line for an error. */
  readonly schema: S;
  /** Called with a function that sends more lines. Without it, the input ends after `lines`. */
  readonly onInput?: (send: (line: object) => Promise<void>) => void;
  /** Whether a line itself reports a failure. Any other command with an exit code other than 0 ended without a report. */
  readonly reportsFailure?: (line: z.output<S>) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Ends when the reader stops. Throws the runner's own error, or RUNNER_GONE if it ended without one. */
export async function* runRunnerCommand<S extends z.ZodType>(
  environment: Environment,
  { argv, env = {} }: RunnerCommandLine,
  { name, lines, schema, onInput, reportsFailure = () => false, signal }: RunnerCommand<S>,
): AsyncGenerator<z.output<S>> {
  const running = await environment.exec([...argv, name], { stdin: 'pipe', env, signal });
  // Callers do not get the log, which can mention things they must not see.
  running.stderr.resume();
  const { stdin } = running;
  try {
    const send = (line: object) => write(stdin, `${JSON.stringify(line)}\n`);
    let sendError: unknown;
    void sendAll(lines, send, onInput ? undefined : stdin).catch((error) => {
      sendError = error;
      running.kill();
    });
    onInput?.(send);
    let last: z.output<S> | undefined;
    for await (const line of boundedJsonLines(running.stdout, LINE_BYTES, (kind) => broken(LINE_PROBLEMS[kind]))) {
      const failure = ErrorLine.safeParse(line);
      if (failure.success) throw sendError ?? failed(failure.data);
      const parsed = schema.safeParse(line);
      if (!parsed.success) throw broken('an unexpected line');
      last = parsed.data;
      yield parsed.data;
    }
    const exit = await running.exited;
    if (sendError !== undefined) throw sendError;
    const complete = last !== undefined && (exit.code === 0 || (exit.code !== undefined && reportsFailure(last)));
    if (!complete) throw gone(name, exit);
  } finally {
    running.kill();
  }
}

async function sendAll(
  lines: Iterable<object>,
  send: (line: object) => Promise<void>,
  toEnd: Writable | undefined,
): Promise<void> {
  for (const line of lines) await send(line);
  toEnd?.end();
}

/** Resolves when there is room for more, or when the reader is gone. */
async function write(stdin: Writable | undefined, text: string): Promise<void> {
  if (Buffer.byteLength(text) > LINE_BYTES) {
    throw new CellaError('TOO_LARGE', `A message to the runner can have at most ${LINE_BYTES} bytes.`);
  }
  await new Promise<void>((resolve) => {
    if (!stdin?.writable) resolve();
    else stdin.write(text, () => resolve());
  });
}

function failed({ error: { code, message, advice, details } }: ErrorLine): CellaError {
  return decodeError({ code: RpcCode.internal, message, data: { code, advice, details } });
}

const LINE_PROBLEMS: Record<LineProblem, string> = {
  'too long': `a line of more than ${LINE_BYTES} bytes`,
  expensive: 'a line that has too many parts or levels',
  'not JSON': 'a line that is not JSON',
};

function broken(what: string): CellaError {
  return new CellaError('RUNNER_PROTOCOL', `The runner wrote ${what}.`);
}

function gone(name: string, exit: ProcessExit): CellaError {
  const how = exit.signal === undefined ? `with code ${exit.code} and no answer` : `by ${exit.signal}`;
  const why = exit.outOfMemory ? ', because it reached its memory limit' : '';
  return new CellaError('RUNNER_GONE', `The runner's ${name} ended ${how}${why}.`, { details: { ...exit } });
}
