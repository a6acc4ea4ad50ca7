/** The one-shot commands `setup-session`, `execute-query` and `read-transcript`: JSON lines in, JSON lines out. */

import type { Writable } from 'node:stream';
import type { z } from 'zod';
import type { AgentAdapter, AgentSetup } from '../agents/agent-adapter.ts';
import { boundedJsonLines, type LineProblem } from '../lib/line-splitter.ts';
import { errorCodes } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import { firstProblem } from '../protocol/parse.ts';
import type { PermissionAnswer, PermissionRequest } from '../protocol/permission.ts';
import { type RpcPort, writerOf } from '../protocol/rpc-peer.ts';
import {
  type ErrorLine,
  LINE_BYTES,
  QueryInput,
  type QueryLine,
  QueryRequest,
  type SetupLine,
  SetupRequest,
  type TranscriptLine,
  TranscriptPiece,
  TranscriptRequest,
  transcriptPieces,
} from '../protocol/runner-commands.ts';
import { checkTranscriptLength } from '../protocol/turn.ts';
import { type AgentLoader, runAgentTurn, throughGateway, withSessionServer } from './agent-turn.ts';
import { openLoopbackForwarder } from './loopback-forwarder.ts';
import { ownVariables, type RunnerStreams } from './own-process.ts';
import { readTranscript, setupSession } from './session-setup.ts';

interface CommandParts {
  readonly lines: AsyncGenerator<unknown>;
  readonly output: JsonOutput;
  readonly agents: AgentLoader;
  /** Aborted when the runner is told to end. */
  readonly stop: AbortSignal;
}

/** Resolves with the exit code. If it rejects, the error is the last line of the output. */
type StdioCommand = (parts: CommandParts) => Promise<number>;

export async function runCommand(
  name: string | undefined,
  rest: readonly string[],
  { input, output: stream }: RunnerStreams,
  agents: AgentLoader,
  stop: AbortSignal,
): Promise<number> {
  const output = new JsonOutput(stream);
  const abort = () => input.destroy(new CellaError('ABORTED', 'The runner was asked to end.'));
  stop.addEventListener('abort', abort, { once: true });
  try {
    const command = name !== undefined && rest.length === 0 ? commands.get(name) : undefined;
    if (!command) throw unknownCommand();
    return await command({ lines: boundedJsonLines(input, LINE_BYTES, lineError), output, agents, stop });
  } catch (error) {
    await output.fail(error).catch(() => {}); // nobody reads
    return 1;
  }
}

function unknownCommand(): CellaError {
  const known = [...commands.keys(), 'serve'].join(', ');
  return new CellaError('INVALID_REQUEST', 'The runner takes one command and no other arguments.', {
    advice: `Use one of these: ${known}. See docs/internals/runner.md.`,
  });
}

const setup: StdioCommand = async ({ lines, output, agents }) => {
  const { conversation, ...request } = await firstLine(lines, SetupRequest);
  const text = conversation === undefined ? '' : await readPieces(lines, conversation);
  const transcript = conversation === undefined ? undefined : { conversation, text };
  const written = await setupSession(agents, withOwnVariables(request), transcript);
  await output.write({ type: 'prepared', transcript: written } satisfies SetupLine);
  return 0;
};

async function readPieces(lines: AsyncGenerator<unknown>, conversation: string): Promise<string> {
  let whole = '';
  for await (const line of lines) {
    whole += check(TranscriptPiece, line).text;
    checkTranscriptLength(conversation, whole.length);
  }
  return whole;
}

function withOwnVariables<T extends { readonly env: Readonly<Record<string, string>> }>(request: T): T {
  return { ...request, env: { ...ownVariables(), ...request.env } };
}

type ParsedQuery = z.output<typeof QueryRequest>;
/** The part of an agent's setup that depends on the way to the models. */
type ModelSetup = (adapter: AgentAdapter) => Pick<AgentSetup, 'model' | 'profile'>;

const query: StdioCommand = async (parts) => {
  const request = await firstLine(parts.lines, QueryRequest);
  const { access, profile } = request;
  if ('baseUrl' in access) return await runQuery(parts, request, () => ({ model: access, profile }));
  const { key, sessionMcp } = access;
  await using gateway = await openLoopbackForwarder(access.gatewaySocket);
  const whole = sessionMcp === undefined ? profile : withSessionServer(profile, sessionMcp, gateway.url, key);
  const reach: ModelSetup = (adapter) => ({ model: throughGateway(gateway.url, adapter, key), profile: whole });
  return await runQuery(parts, request, reach);
};

async function runQuery(
  { lines, output, agents, stop }: CommandParts,
  request: ParsedQuery,
  reach: ModelSetup,
): Promise<number> {
  const {
    agent,
    cwd,
    homeDir,
    programDir,
    env,
    turn: id,
    timeoutMs,
    prompt,
    mode,
    model,
    tools,
    conversation,
  } = request;
  const stopping = new AbortController();
  const answers = new StdioPermissions(output);
  let broken: { readonly error: unknown } | undefined;
  answers
    .read(lines, () => stopping.abort())
    .catch((error: unknown) => {
      // An invalid line ends the query: the caller expects something else.
      broken = { error };
      stopping.abort();
    });
  let messageCount = 0;
  const result = await runAgentTurn({
    load: () => agents.load(agent),
    setup: async (adapter) => ({ cwd, homeDir, programDir, env: { ...ownVariables(), ...env }, ...reach(adapter) }),
    turn: {
      ...{ id, prompt, mode, model, tools, conversation },
      emit: async (event) => {
        messageCount += 1;
        await output.write({ type: 'event', sequence: messageCount, event } satisfies QueryLine);
      },
    },
    permit: (ask) => answers.ask(ask),
    timeoutMs,
    stop: AbortSignal.any([stop, stopping.signal]),
  });
  if (broken) throw broken.error;
  await output.write({ type: 'ended', ...result, messageCount } satisfies QueryLine);
  return result.status === 'completed' || result.status === 'cancelled' ? 0 : 1;
}

const transcript: StdioCommand = async ({ lines, output, agents }) => {
  const { conversation, as, ...request } = await firstLine(lines, TranscriptRequest);
  const write = (line: TranscriptLine) => output.write(line);
  const text = await readTranscript(agents, { ...withOwnVariables(request), profile: {} }, conversation);
  if (as === 'text') for (const piece of transcriptPieces(text ?? '')) await write(piece);
  else
    for (const event of (await agents.load(request.agent)).eventsOf(text ?? '')) await write({ type: 'event', event });
  await write({ type: 'end', found: text !== undefined });
  return 0;
};

class StdioPermissions {
  readonly #output: JsonOutput;
  readonly #waiting = new Map<number, (answer: PermissionAnswer) => void>();
  #asked = 0;
  /** Why no more answers will come. */
  #end: string | undefined;

  constructor(output: JsonOutput) {
    this.#output = output;
  }

  async ask(request: PermissionRequest): Promise<PermissionAnswer> {
    if (this.#end !== undefined) return { allowed: false, reason: this.#end };
    const id = ++this.#asked;
    const answered = Promise.withResolvers<PermissionAnswer>();
    this.#waiting.set(id, answered.resolve);
    await this.#output.write({ type: 'permission', id, ...request } satisfies QueryLine);
    return await answered.promise;
  }

  /** Reads to the end of the input. Throws `INVALID_REQUEST` for an invalid line. */
  async read(lines: AsyncGenerator<unknown>, onStop: () => void): Promise<void> {
    try {
      for await (const line of lines) {
        const said = check(QueryInput, line);
        if (said.type === 'stop') onStop();
        else this.#answer(said);
      }
      this.#close('Nobody can answer: the input has ended.');
    } catch (error) {
      this.#close(error instanceof CellaError ? error.message : 'Nobody can answer: the input broke.');
      throw error;
    }
  }

  #answer({ id, allowed, reason, text }: Extract<QueryInput, { type: 'permission' }>): void {
    this.#waiting.get(id)?.({ allowed, reason, text });
    this.#waiting.delete(id);
  }

  #close(why: string): void {
    this.#end = why;
    for (const answer of this.#waiting.values()) answer({ allowed: false, reason: why });
  }
}

function lineError(kind: LineProblem): CellaError {
  if (kind === 'too long')
    return new CellaError('TOO_LARGE', `A line of the input is longer than ${LINE_BYTES} bytes.`);
  const what = kind === 'not JSON' ? 'is not JSON' : 'has too many parts or levels';
  return new CellaError('INVALID_REQUEST', `A line of the input ${what}.`);
}

async function firstLine<S extends z.ZodType>(lines: AsyncGenerator<unknown>, schema: S): Promise<z.output<S>> {
  const { value, done } = await lines.next();
  if (done) throw new CellaError('INVALID_REQUEST', 'The command reads one line of JSON, but the input is empty.');
  return check(schema, value);
}

function check<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw new CellaError('INVALID_REQUEST', `Invalid input: ${firstProblem(outcome.error)}.`, {
    advice: 'docs/internals/runner.md shows every field.',
  });
}

class JsonOutput {
  readonly #write: RpcPort['write'];

  constructor(output: Writable) {
    this.#write = writerOf(output);
  }

  /** Resolves when there is room for more; rejects if the reader is gone. */
  async write(line: object): Promise<void> {
    await this.#write(`${JSON.stringify(line)}\n`);
  }

  async fail(error: unknown): Promise<void> {
    await this.write({ type: 'error', error: toErrorBody(error) } satisfies ErrorLine);
  }
}

function toErrorBody(error: unknown): ErrorLine['error'] {
  if (error instanceof CellaError) return { ...error.toJSON() };
  console.error(error);
  return { code: 'INTERNAL', message: 'The command failed; see its stderr.', advice: errorCodes.INTERNAL.advice };
}

const commands: ReadonlyMap<string, StdioCommand> = new Map([
  ['setup-session', setup],
  ['execute-query', query],
  ['read-transcript', transcript],
]);
