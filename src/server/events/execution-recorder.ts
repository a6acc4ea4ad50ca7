/** Turns the events of an execution, and background events, into log events. Large ones become files that an event names. */

import { ownTurn } from '../../lib/event-loop.ts';
import {
  type BackgroundEvent,
  type Bundle,
  type ExecutionEvent,
  type ExecutionResult,
  type MimeBundle,
  type OutputFile,
  type ResultEvent,
  resultToWire,
} from '../../protocol/execution-events.ts';
import { JsonPieces, jsonBytes, jsonText, toWireInSlices } from '../../protocol/json-pieces.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Session } from '../../session/session.ts';
import type { ServerExecution } from '../sessions/server-execution.ts';
import type { SessionExecutions } from '../sessions/session-executions.ts';
import { countedBytes, type OutputFiles, type OutputFileWriter } from './output-files.ts';
import type { SessionLog } from './session-log.ts';

interface RecordLimits {
  /** The largest event. */
  readonly eventBytes: number;
  /** How much output of one execution becomes events; the rest goes to files. */
  readonly inlineBytes: number;
  /** The largest file. */
  readonly fileBytes: number;
}

/** Converting the value of a result with a longer repr may take a while. */
const LONG_REPR = 16 * 1024;

type StreamOutput = Extract<ExecutionEvent, { type: 'stdout' | 'stderr' }>;

export class ExecutionRecorder implements AsyncDisposable {
  readonly #execution: string;
  readonly #writer: SessionLog;
  readonly #outputs: OutputFiles;
  readonly #limits: RecordLimits;
  readonly #streams = new Map<StreamOutput['type'], OutputFileWriter>();
  #inline = 0;
  /** Counted bytes of the displays in files. */
  #kept = 0;
  #displaysCut = 0;

  constructor(execution: string, writer: SessionLog, outputs: OutputFiles, limits: RecordLimits) {
    this.#execution = execution;
    this.#writer = writer;
    this.#outputs = outputs;
    this.#limits = limits;
  }

  /** Resolves when the code may continue. */
  async record(event: Exclude<ExecutionEvent, ResultEvent>): Promise<void> {
    switch (event.type) {
      case 'stdout':
      case 'stderr':
        await this.#output(event);
        break;
      case 'display':
        await this.#display(await bundleOf(event.data));
        break;
      case 'progress':
        this.#writer.add({ ...event, execution: this.#execution });
        break;
      case 'input_request':
        // A client must see it before it can be answered.
        void this.#writer.write({ ...event, execution: this.#execution });
        break;
    }
    if (this.#writer.full) await this.#writer.room();
  }

  /** Flushes its files. Returns the event that ends the execution, and the caller's result. */
  async end(result: ResultEvent): Promise<{ event: SessionEventBody; result: ExecutionResult }> {
    const wire = await wireOf(result);
    const files: OutputFile[] = [];
    for (const stream of this.#streams.values()) {
      await stream.flush();
      files.push(stream.facts);
    }
    this.#addCutBytes(wire);
    const { stdout, stderr, displays, value, repr, data, ...facts } = wire;
    const values = {
      value,
      repr,
      data,
    };
    const text = await jsonText(values);
    const file = jsonBytes(text) > this.#limits.eventBytes ? await this.#outputs.keep('json', text) : undefined;
    if (file) files.push(file);
    return {
      event: { type: 'result', execution: this.#execution, ...facts, ...(file ? { file } : withoutPieces(values)) },
      result: { ...wire, ...(files.length > 0 ? { files } : {}) },
    };
  }

  #addCutBytes(wire: ExecutionResult): void {
    const cut = [...this.#streams.values()].reduce((total, { cutBytes }) => total + cutBytes, 0);
    const { streamedBytes = 0, displays = 0 } = wire.truncated ?? {};
    if (cut > 0) wire.truncated = { ...wire.truncated, streamedBytes: streamedBytes + cut };
    if (this.#displaysCut > 0) wire.truncated = { ...wire.truncated, displays: displays + this.#displaysCut };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stream of this.#streams.values()) await stream[Symbol.asyncDispose]();
  }

  async #output({ type, text }: StreamOutput): Promise<void> {
    const moved = this.#streams.get(type);
    if (moved) return await moved.write(text);
    this.#inline += text.length;
    if (this.#inline <= this.#limits.inlineBytes && text.length <= this.#limits.eventBytes) {
      this.#writer.add({ type, text, execution: this.#execution });
      return;
    }
    const output = await this.#outputs.begin('txt', this.#limits.fileBytes);
    this.#streams.set(type, output);
    await output.write(text);
    this.#writer.add({ type: 'output_file', execution: this.#execution, stream: type, file: output.facts });
  }

  async #display(data: Bundle): Promise<void> {
    const text = await jsonText(data);
    const bytes = jsonBytes(text);
    const execution = this.#execution;
    this.#inline += bytes;
    if (bytes <= this.#limits.eventBytes && this.#inline <= this.#limits.inlineBytes) {
      this.#writer.add({ type: 'display', execution, data: withoutPieces(data) });
    } else if (this.#kept + countedBytes(bytes) <= this.#limits.fileBytes) {
      this.#kept += countedBytes(bytes);
      this.#writer.add({ type: 'display', execution, file: await this.#outputs.keep('json', text) });
    } else {
      this.#displaysCut += 1;
    }
  }
}

/** Like `resultToWire`, with large values as pieces of JSON. */
async function wireOf(result: ResultEvent): Promise<ExecutionResult> {
  const { value, data, displays, ...rest } = result;
  // Parsing the frame has used up this turn of the event loop.
  if ((rest.repr?.length ?? 0) > LONG_REPR) await ownTurn();
  const wire = resultToWire({ ...rest, displays: [] });
  if (value !== undefined) wire.value = await toWireInSlices(value);
  if (data !== undefined) wire.data = await bundleOf(data);
  for (const display of displays) wire.displays.push({ type: 'display', data: await bundleOf(display.data) });
  return wire;
}

async function bundleOf(data: MimeBundle): Promise<Bundle> {
  const bundle: Bundle = {};
  for (const [type, value] of Object.entries(data)) bundle[type] = await toWireInSlices(value);
  return bundle;
}

/** Replaces pieces of JSON by their values: the values of an event are small. */
function withoutPieces<T extends object>(values: T): T {
  const parts = Object.entries(values).map(([name, value]) => {
    if (value instanceof JsonPieces) return [name, value.toJSON()];
    return name === 'data' && typeof value === 'object' && value !== null
      ? [name, withoutPieces(value)]
      : [name, value];
  });
  return Object.fromEntries(parts) as T;
}

/** How much code an event shows if it is too large. */
const SHOWN_CODE_CHARS = 4096;

export async function startedEvent(
  { id, code, options, request }: ServerExecution,
  outputs: OutputFiles,
  { eventBytes }: RecordLimits,
): Promise<SessionEventBody> {
  const large = code.length > eventBytes;
  const { transaction, timeoutMs, by } = options;
  return {
    type: 'execution_started',
    execution: id,
    code: large ? code.slice(0, SHOWN_CODE_CHARS) : code,
    ...(large ? { file: await outputs.keep('txt', code) } : {}),
    transaction,
    timeoutMs,
    by,
    request,
  };
}

interface BackgroundEventRecorderParts {
  readonly writer: SessionLog;
  readonly outputs: OutputFiles;
  readonly limits: RecordLimits;
  /** Finds an execution by its number in the kernel. */
  readonly executions: Pick<SessionExecutions, 'executionOf'>;
}

export class BackgroundEventRecorder {
  readonly #parts: BackgroundEventRecorderParts;

  constructor(parts: BackgroundEventRecorderParts) {
    this.#parts = parts;
  }

  /** The progress of packages that are installed before a kernel starts. */
  recordProgress(text: string): void {
    this.#parts.writer.add({ type: 'progress', background: true, task: 'deps.sync', text });
  }

  /** Resolves when the session is closed. */
  async record(session: Session): Promise<void> {
    const { writer } = this.#parts;
    for await (const event of session.background()) {
      const body = await toLogEvent(event, this.#parts).catch(() => undefined); // its file could not be written
      if (body) writer.add(body);
      if (writer.full) await writer.room();
    }
  }
}

async function toLogEvent(
  event: BackgroundEvent,
  { outputs, limits, executions }: BackgroundEventRecorderParts,
): Promise<SessionEventBody> {
  if (event.type === 'saved') {
    const { id, ...facts } = event;
    return { ...facts, checkpoint: id };
  }
  if (event.type === 'network_denied') return event;
  const number = event.type === 'progress' ? undefined : event.execution;
  const execution = executions.executionOf(number);
  const owner = {
    background: true as const,
    execution,
    number,
  };
  if (event.type === 'progress') return { ...event, ...owner };
  if (event.type !== 'display') return { type: event.type, text: event.text, ...owner };
  const data = await bundleOf(event.data);
  const text = await jsonText(data);
  if (jsonBytes(text) <= limits.eventBytes) return { type: 'display', ...owner, data: withoutPieces(data) };
  return { type: 'display', ...owner, file: await outputs.keep('json', text) };
}
