/** From the events of the server to those of the library: output that went to files is read from there. */

import { Backoff } from '../lib/backoff.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import type { Executed } from '../protocol/api/execution-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import {
  Bundle,
  bundleFromWire,
  type DisplayEvent,
  type ExecutionEvent,
  ExecutionResult,
  type OutputEvent,
  type ResultEvent,
  resultFromWire,
} from '../protocol/execution-events.ts';
import { type ExecutionEnd, isExecutionEnd, type SessionEvent } from '../protocol/session-events.ts';
import { toError } from './failure.ts';
import { checked } from './link.ts';
import { type OutputReader, OutputTail } from './output-tail.ts';

/** How often a file that grows is looked at. */
const TAIL_MS = 100;

export interface EventSource {
  readonly events: AsyncGenerator<SessionEvent, void, undefined>;
  /** What the server tells of an execution that has ended. */
  readonly result: () => Promise<Executed>;
  readonly read: OutputReader;
  /** How much output is collected here: past it the server's result tells what is kept. */
  readonly limit: number;
  readonly resumeMs: number;
}

export async function* toExecutionEvents(source: EventSource): AsyncGenerator<ExecutionEvent, void, undefined> {
  const tails: OutputTail[] = [];
  const collected = new Collected(source.limit);
  try {
    while (true) {
      const next = source.events.next();
      next.catch(() => {}); // told below
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
  readonly tails: OutputTail[];
  readonly collected: Collected;
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
      tails.push(new OutputTail(event.stream, event.file.file, source.read));
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

async function ending(event: ExecutionEnd, collected: Collected, source: EventSource): Promise<ResultEvent> {
  if (event.type === 'execution_failed') throw toError(event.error);
  if (event.type === 'interrupted') {
    throw new CellaError('EXECUTION_LOST', event.reason, { details: { execution: event.execution } });
  }
  const { stdoutBytes, stderrBytes, displays } = event.truncated ?? {};
  const cut = stdoutBytes !== undefined || stderrBytes !== undefined || displays !== undefined;
  if (cut || event.file || collected.partial) return resultFromWire(ExecutionResult.parse(await source.result()));
  const { type, seq, at, execution, file, ...facts } = { seq: 0, at: 0, ...event };
  return { ...resultFromWire({ ...facts, stdout: '', stderr: '', displays: [] }), ...collected.all() };
}

/** A bundle that was too large for its event is a file. */
async function bundleOf(
  event: Extract<SessionEvent, { type: 'display' }>,
  read: OutputReader,
): Promise<Record<string, unknown>> {
  if (!event.file) return event.data ?? {};
  return checked(Bundle, tryParseJson(await (await read(event.file.file, 0)).text()), 'outputs');
}

class Collected {
  readonly #limit: number;
  readonly #text = { stdout: [] as string[], stderr: [] as string[] };
  readonly #displays: DisplayEvent[] = [];
  #size = 0;
  /** Whether this is not all of it. */
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
