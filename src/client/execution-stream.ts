/** Turns session events into execution events. Reads output that went to files, and answers input(). */

import { Backoff } from '../lib/backoff.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { chunksOf } from '../lib/line-splitter.ts';
import type { Executed } from '../protocol/api/execution-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import {
  type Answerable,
  Bundle,
  bundleFromWire,
  type DisplayEvent,
  type ExecutionEvent,
  ExecutionResult,
  type InputRequestEvent,
  type OutputEvent,
  type ResultEvent,
  resultFromWire,
} from '../protocol/execution-events.ts';
import { type ExecutionEnd, isExecutionEnd, type SessionEvent } from '../protocol/session-events.ts';
import { errorFromBody, parseResponse } from './api-client.ts';

/** How often a growing output file is read. */
const TAIL_MS = 100;

interface EventSource {
  readonly events: AsyncGenerator<SessionEvent, void, undefined>;
  /** The server's result of an execution that has ended. */
  readonly result: () => Promise<Executed>;
  readonly read: OpenOutputFile;
  /** How much output the client collects. Beyond this, it uses the output in the server's result. */
  readonly limit: number;
  readonly resumeMs: number;
}

export async function* toExecutionEvents(source: EventSource): AsyncGenerator<ExecutionEvent, void, undefined> {
  const tails: OutputFileReader[] = [];
  const collected = new OutputCollector(source.limit);
  try {
    while (true) {
      const next = source.events.next();
      next.catch(() => {}); // awaited below
      while (tails.length > 0 && (await first(next, TAIL_MS)) === 'later') for (const tail of tails) yield* tail.read();
      const { value: event, done } = await next;
      if (done) return;
      for (const tail of tails) yield* isExecutionEnd(event) ? tail.rest(new Backoff(source.resumeMs)) : tail.read();
      const one = await convert(event, { tails, collected, source });
      if (one) yield one;
    }
  } finally {
    await source.events.return();
  }
}

interface Work {
  readonly tails: OutputFileReader[];
  readonly collected: OutputCollector;
  readonly source: EventSource;
}

async function convert(event: SessionEvent, { tails, collected, source }: Work): Promise<ExecutionEvent | undefined> {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return collected.output({ type: event.type, text: event.text });
    case 'display':
      return collected.display({ type: 'display', data: bundleFromWire(await bundleOf(event, source.read)) });
    case 'output_file':
      collected.partial = true;
      tails.push(new OutputFileReader(event.stream, event.file.file, source.read));
      return undefined;
    case 'progress':
      return { type: 'progress', task: event.task, text: event.text };
    case 'input_request': {
      const { id, prompt, password } = event;
      return { type: 'input_request', id, prompt, password };
    }
    case 'result':
    case 'execution_failed':
    case 'interrupted':
      return await ending(event, collected, source);
    default:
      return undefined;
  }
}

async function ending(event: ExecutionEnd, collected: OutputCollector, source: EventSource): Promise<ResultEvent> {
  if (event.type === 'execution_failed') throw errorFromBody(event.error);
  if (event.type === 'interrupted') {
    throw new CellaError('EXECUTION_LOST', event.reason, { details: { execution: event.execution } });
  }
  const { stdoutBytes, stderrBytes, displays } = event.truncated ?? {};
  const cut = stdoutBytes !== undefined || stderrBytes !== undefined || displays !== undefined;
  if (cut || event.file || collected.partial) return resultFromWire(ExecutionResult.parse(await source.result()));
  const { type, seq, at, execution, file, ...facts } = { seq: 0, at: 0, ...event };
  return { ...resultFromWire({ ...facts, stdout: '', stderr: '', displays: [] }), ...collected.all() };
}

/** A bundle that is too large for its event is in a file. */
async function bundleOf(
  event: Extract<SessionEvent, { type: 'display' }>,
  read: OpenOutputFile,
): Promise<Record<string, unknown>> {
  if (!event.file) return event.data ?? {};
  return parseResponse(Bundle, tryParseJson(await (await read(event.file.file, 0)).text()), 'outputs');
}

class OutputCollector {
  readonly #limit: number;
  readonly #text = { stdout: [] as string[], stderr: [] as string[] };
  readonly #displays: DisplayEvent[] = [];
  #size = 0;
  /** Whether the collected output is incomplete. */
  partial = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  output(event: OutputEvent): OutputEvent {
    this.#size += event.text.length;
    if (this.#size > this.#limit) this.partial = true;
    else this.#text[event.type].push(event.text);
    return event;
  }

  display(event: DisplayEvent): DisplayEvent {
    this.#displays.push(event);
    return event;
  }

  all(): Pick<ResultEvent, 'stdout' | 'stderr' | 'displays'> {
    return { stdout: this.#text.stdout.join(''), stderr: this.#text.stderr.join(''), displays: this.#displays };
  }
}

async function first(next: Promise<unknown>, ms: number): Promise<'now' | 'later'> {
  const late = Promise.withResolvers<'later'>();
  const timer = setTimeout(() => late.resolve('later'), ms);
  const now = next.then(
    () => 'now' as const,
    () => 'now' as const,
  );
  return await Promise.race([now, late.promise]).finally(() => clearTimeout(timer));
}

type OpenOutputFile = (file: string, offset: number) => Promise<Response>;

class OutputFileReader {
  readonly #type: OutputEvent['type'];
  readonly #file: string;
  readonly #read: OpenOutputFile;
  readonly #decoder = new TextDecoder();
  #offset = 0;

  constructor(type: OutputEvent['type'], file: string, read: OpenOutputFile) {
    this.#type = type;
    this.#file = file;
    this.#read = read;
  }

  /** Returns whether it reached the end. If the connection breaks, the next read continues from there. */
  async *read(): AsyncGenerator<OutputEvent, boolean, undefined> {
    try {
      for await (const chunk of chunksOf(await this.#read(this.#file, this.#offset))) {
        this.#offset += chunk.byteLength;
        const text = this.#decoder.decode(chunk, { stream: true });
        if (text !== '') yield { type: this.#type, text };
      }
      return true;
    } catch (error) {
      if (error instanceof CellaError && error.code !== 'SERVER_UNREACHABLE') throw error;
      return false;
    }
  }

  /** Reads the rest of the file, and retries after broken connections. */
  async *rest(backoff: Backoff): AsyncGenerator<OutputEvent, void, undefined> {
    while (!(yield* this.read())) {
      await backoff.wait(new CellaError('SERVER_UNREACHABLE', `The output ${this.#file} cannot be read.`));
    }
  }
}

const NO_READER = 'input() was called, but no client reads the events of this cell any more';

export class InputRefuser {
  readonly #session: Answerable;

  constructor(session: Answerable) {
    this.#session = session;
  }

  /** If the reader leaves, the code keeps running, and its input requests are refused. */
  async *whileRead(events: AsyncGenerator<ExecutionEvent, void, undefined>): AsyncGenerator<ExecutionEvent> {
    let over = false;
    let asked: InputRequestEvent | undefined;
    try {
      while (true) {
        const { value: event, done } = await events.next().catch((error) => {
          over = true;
          throw error;
        });
        if (done) {
          over = true;
          return;
        }
        if (event.type === 'input_request') asked = event;
        // Nothing follows the result. A reader that stops there must not leave an execution that looks live.
        if (event.type === 'result') {
          over = true;
          await events.return();
        }
        yield event;
      }
    } finally {
      if (!over) void this.#refuseInputs(events, asked);
    }
  }

  async #refuseInputs(
    events: AsyncGenerator<ExecutionEvent, void, undefined>,
    asked: InputRequestEvent | undefined,
  ): Promise<void> {
    try {
      if (asked) await this.#refuse(asked);
      for await (const event of events) if (event.type === 'input_request') await this.#refuse(event);
    } catch {
      // The reader is gone.
    }
  }

  /** Ignores errors: another client may have answered already. */
  async #refuse({ id }: InputRequestEvent): Promise<void> {
    await this.#session.cancelInput(id, NO_READER).catch(() => {});
  }
}
