/** The one-shot commands `setup-session`, `execute-query` and `read-transcript`: JSON lines in, JSON lines out. */

import type { Readable, Writable } from 'node:stream';
import type { z } from 'zod';
import type { AgentAdapter, AgentPermissionRequest, AgentSetup, PermissionAnswer } from '../agents/agent-adapter.ts';
import { onAbort } from '../lib/abort.ts';
import { type Line, LineSplitter } from '../lib/line-splitter.ts';
import { CellaError, errorCodes } from '../protocol/errors.ts';
import { describeFirstIssue } from '../protocol/rpc-peer.ts';
import { type RpcPort, writerOf } from '../protocol/rpc-streams.ts';
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
import { type AgentLoader, noModelAccess, runAgentTurn, throughGateway, withSessionServer } from './agent-turn.ts';
import { openLoopbackForwarder } from './loopback-forwarder.ts';
import { ownVariables, type RunnerStreams } from './runner-process.ts';

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
  const abort = () => input.destroy(new CellaError('ABORTED', 'The runner was told to end.'));
  stop.addEventListener('abort', abort, { once: true });
  try {
    const command = name !== undefined && rest.length === 0 ? commands.get(name) : undefined;
    if (!command) throw unknownCommand();
    return await command({ lines: readJson(input), output, agents, stop });
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

/** The longest transcript that is read into memory. */
const MAX_TRANSCRIPT_CHARS = 256 * 1024 * 1024;

const setupSession: StdioCommand = async ({ lines, output, agents }) => {
  const { agent: name, conversation, env, ...place } = await firstLine(lines, SetupRequest);
  const adapter = await agents.load(name);
  const agent = await adapter.open({ ...place, env: { ...ownVariables(), ...env }, model: noModelAccess });
  try {
    const text = conversation === undefined ? '' : await readTranscriptText(lines);
    const isNew = conversation !== undefined && text !== '' && (await agent.writeTranscript(conversation, text));
    const transcript = conversation === undefined || text === '' ? 'none' : isNew ? 'written' : 'kept';
    await output.write({ type: 'prepared', transcript } satisfies SetupLine);
    return 0;
  } finally {
    await agent.close();
  }
};

async function readTranscriptText(lines: AsyncGenerator<unknown>): Promise<string> {
  const parts: string[] = [];
  let length = 0;
  for await (const line of lines) {
    const { text } = check(TranscriptPiece, line);
    length += text.length;
    if (length > MAX_TRANSCRIPT_CHARS) throw new CellaError('TOO_LARGE', 'The transcript is too long to be taken.');
    parts.push(text);
  }
  return parts.join('');
}

type ParsedQuery = z.output<typeof QueryRequest>;
/** The part of an agent's setup that depends on the way to the models. */
type ModelSetup = (adapter: AgentAdapter) => Pick<AgentSetup, 'model' | 'profile'>;

const executeQuery: StdioCommand = async (parts) => {
  const query = await firstLine(parts.lines, QueryRequest);
  const { access, profile } = query;
  if ('baseUrl' in access) return await runQuery(parts, query, () => ({ model: access, profile }));
  const { key, sessionMcp } = access;
  await using gateway = await openLoopbackForwarder(access.gatewaySocket);
  const whole = sessionMcp === undefined ? profile : withSessionServer(profile, sessionMcp, gateway.url, key);
  const reach: ModelSetup = (adapter) => ({ model: throughGateway(gateway.url, adapter, key), profile: whole });
  return await runQuery(parts, query, reach);
};

async function runQuery(
  { lines, output, agents, stop }: CommandParts,
  query: ParsedQuery,
  reach: ModelSetup,
): Promise<number> {
  const { agent, cwd, homeDir, programDir, env, turn: id, timeoutMs, prompt, mode, model, tools, conversation } = query;
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
  const end = await runAgentTurn({
    load: () => agents.load(agent),
    setup: async (adapter) => ({ cwd, homeDir, programDir, env: { ...ownVariables(), ...env }, ...reach(adapter) }),
    turn: {
      ...{ id, prompt, mode, model, tools, conversation },
      emit: async (event) => {
        messageCount += 1;
        await output.write({ type: 'event', sequence: messageCount, event } satisfies QueryLine);
      },
      permit: (ask, signal) => answers.ask(ask, signal),
    },
    timeoutMs,
    stop: AbortSignal.any([stop, stopping.signal]),
  });
  if (broken) throw broken.error;
  await output.write({ type: 'ended', ...end, messageCount } satisfies QueryLine);
  return end.status === 'completed' || end.status === 'cancelled' ? 0 : 1;
}

const readTranscript: StdioCommand = async ({ lines, output, agents }) => {
  const { agent: name, conversation, as, env, ...place } = await firstLine(lines, TranscriptRequest);
  const adapter = await agents.load(name);
  const write = (line: TranscriptLine) => output.write(line);
  const agent = await adapter.open({ ...place, env: { ...ownVariables(), ...env }, model: noModelAccess, profile: {} });
  try {
    const text = await agent.readTranscript(conversation);
    if (as === 'text') for (const piece of transcriptPieces(text ?? '')) await write(piece);
    else for (const event of adapter.eventsOf(text ?? '')) await write({ type: 'event', event });
    await write({ type: 'end', found: text !== undefined });
    return 0;
  } finally {
    await agent.close();
  }
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

  async ask(ask: AgentPermissionRequest, signal: AbortSignal): Promise<PermissionAnswer> {
    if (this.#end !== undefined) return { allowed: false, reason: this.#end };
    const id = ++this.#asked;
    const answered = Promise.withResolvers<PermissionAnswer>();
    this.#waiting.set(id, answered.resolve);
    using _ = onAbort(signal, () => answered.resolve({ allowed: false, reason: 'The turn is being stopped.' }));
    try {
      const { question, ...rest } = ask;
      const words = question && { text: question.text, ...(question.options && { options: [...question.options] }) };
      await this.#output.write({
        type: 'permission',
        id,
        ...rest,
        ...(words && { question: words }),
      } satisfies QueryLine);
      return await answered.promise;
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** Reads to the end of the input. Throws `INVALID_REQUEST` for an invalid line. */
  async read(lines: AsyncGenerator<unknown>, onStop: () => void): Promise<void> {
    try {
      for await (const line of lines) {
        const said = check(QueryInput, line);
        if (said.type === 'stop') onStop();
        else this.#waiting.get(said.id)?.({ allowed: said.allowed, reason: said.reason, text: said.text });
      }
      this.#close('Nobody is there to be asked: the input has ended.');
    } catch (error) {
      this.#close(error instanceof CellaError ? error.message : 'Nobody is there to be asked: the input broke.');
      throw error;
    }
  }

  #close(why: string): void {
    this.#end = why;
    for (const answer of this.#waiting.values()) answer({ allowed: false, reason: why });
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The lines of the input as JSON, without blank ones. Throws `INVALID_REQUEST` or `TOO_LARGE`. */
async function* readJson(input: Readable): AsyncGenerator<unknown> {
  const decoder = new LineSplitter(LINE_BYTES);
  for await (const chunk of input) for (const line of decoder.push(chunk)) yield* parseLine(line);
  const last = decoder.end();
  if (last) yield* parseLine(last);
}

function* parseLine(line: Line): Generator<unknown> {
  if (line.kind === 'cut') throw new CellaError('TOO_LARGE', `A line of the input is longer than ${LINE_BYTES} bytes.`);
  let json: unknown;
  try {
    const text = utf8.decode(line.bytes);
    if (text.trim() === '') return;
    json = JSON.parse(text);
  } catch {
    // No cause: it would quote the line, which may contain a key.
    throw new CellaError('INVALID_REQUEST', 'A line of the input is not JSON.');
  }
  yield json;
}

async function firstLine<S extends z.ZodType>(lines: AsyncGenerator<unknown>, schema: S): Promise<z.output<S>> {
  const { value, done } = await lines.next();
  if (done) throw new CellaError('INVALID_REQUEST', 'The command reads one line of JSON, and there was none.');
  return check(schema, value);
}

function check<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw new CellaError(
    'INVALID_REQUEST',
    `The input is not what the command takes: ${describeFirstIssue(outcome.error)}.`,
    {
      advice: 'docs/internals/runner.md shows every field.',
    },
  );
}

class JsonOutput {
  readonly #write: RpcPort['write'];

  constructor(output: Writable) {
    this.#write = writerOf(output);
  }

  /** Resolves when there is room for more; rejects if nobody reads. */
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
  return { code: 'INTERNAL', message: 'The command failed; its stderr tells why.', advice: errorCodes.INTERNAL.advice };
}

const commands: ReadonlyMap<string, StdioCommand> = new Map([
  ['setup-session', setupSession],
  ['execute-query', executeQuery],
  ['read-transcript', readTranscript],
]);
