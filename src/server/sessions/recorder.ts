/** Writes down what one execution tells: small things as events, large ones as files that an event names. */

import { setImmediate as turn } from 'node:timers/promises';
import {
  type Bundle,
  type ExecutionEvent,
  type ExecutionResult,
  type MimeBundle,
  type OutputFile,
  type ResultEvent,
  resultToWire,
} from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import { JsonPieces, jsonBytes, jsonText, slowlyToWire } from '../json-pieces.ts';
import type { EventWriter } from './event-writer.ts';
import type { GrowingOutput, Outputs } from './outputs.ts';

export interface RecordLimits {
  /** The largest event. */
  readonly eventBytes: number;
  /** How much output of one execution becomes events; the rest goes to files. */
  readonly inlineBytes: number;
  /** The largest file. */
  readonly fileBytes: number;
}

/** The value of a longer one may take a while. */
const LONG_REPR = 16 * 1024;

type Output = Extract<ExecutionEvent, { type: 'stdout' | 'stderr' }>;

export class Recorder implements AsyncDisposable {
  readonly #execution: string;
  readonly #writer: EventWriter;
  readonly #outputs: Outputs;
  readonly #limits: RecordLimits;
  readonly #streams = new Map<Output['type'], GrowingOutput>();
  #inline = 0;
  /** In files of their own. */
  #kept = 0;
  #displaysCut = 0;

  constructor(execution: string, writer: EventWriter, outputs: Outputs, limits: RecordLimits) {
    this.#execution = execution;
    this.#writer = writer;
    this.#outputs = outputs;
    this.#limits = limits;
  }

  /** Resolves when the code may go on. */
  async take(event: Exclude<ExecutionEvent, ResultEvent>): Promise<void> {
    switch (event.type) {
      case 'stdout':
      case 'stderr':
        await this.#output(event);
        break;
      case 'display':
        await this.#display(await bundleOf(event.data));
        break;
      case 'progress':
        this.#writer.add({ ...event, execution: this.#execution }, event.text.length);
        break;
      case 'input_request':
        // Somebody must see it before it can be answered.
        void this.#writer.write({ ...event, execution: this.#execution });
        break;
    }
    if (this.#writer.full) await this.#writer.room();
  }

  /** Everything that it wrote to files is on the disk. Gives the ending, and what a caller gets. */
  async end(result: ResultEvent): Promise<{ event: SessionEventBody; result: ExecutionResult }> {
    const wire = await wireOf(result);
    const files: OutputFile[] = [];
    for (const stream of this.#streams.values()) {
      await stream.flush();
      files.push(stream.facts);
    }
    this.#tellCut(wire);
    const { stdout, stderr, displays, value, repr, data, ...facts } = wire;
    const values = {
      ...(value === undefined ? {} : { value }),
      ...(repr === undefined ? {} : { repr }),
      ...(data === undefined ? {} : { data }),
    };
    const text = await jsonText(values);
    const file = jsonBytes(text) > this.#limits.eventBytes ? await this.#outputs.keep('json', text) : undefined;
    if (file) files.push(file);
    return {
      event: { type: 'result', execution: this.#execution, ...facts, ...(file ? { file } : whole(values)) },
      result: { ...wire, ...(files.length > 0 ? { files } : {}) },
    };
  }

  #tellCut(wire: ExecutionResult): void {
    const cut = [...this.#streams.values()].reduce((total, { cutBytes }) => total + cutBytes, 0);
    const { streamedBytes = 0, displays = 0 } = wire.truncated ?? {};
    if (cut > 0) wire.truncated = { ...wire.truncated, streamedBytes: streamedBytes + cut };
    if (this.#displaysCut > 0) wire.truncated = { ...wire.truncated, displays: displays + this.#displaysCut };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stream of this.#streams.values()) await stream[Symbol.asyncDispose]();
  }

  async #output({ type, text }: Output): Promise<void> {
    const moved = this.#streams.get(type);
    if (moved) return await moved.write(text);
    this.#inline += text.length;
    if (this.#inline <= this.#limits.inlineBytes && text.length <= this.#limits.eventBytes) {
      this.#writer.add({ type, text, execution: this.#execution }, text.length);
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
      this.#writer.add({ type: 'display', execution, data: whole(data) }, bytes);
    } else if (this.#kept + bytes <= this.#limits.fileBytes) {
      this.#kept += bytes;
      this.#writer.add({ type: 'display', execution, file: await this.#outputs.keep('json', text) });
    } else {
      this.#displaysCut += 1;
    }
  }
}

/** As `resultToWire`, with large values as pieces of JSON. */
async function wireOf(result: ResultEvent): Promise<ExecutionResult> {
  const { value, data, displays, ...rest } = result;
  // It was taken apart just now: others have their turn first.
  if ((rest.repr?.length ?? 0) > LONG_REPR) await turn();
  const wire = resultToWire({ ...rest, displays: [] });
  if (value !== undefined) wire.value = await slowlyToWire(value);
  if (data !== undefined) wire.data = await bundleOf(data);
  for (const display of displays) wire.displays.push({ type: 'display', data: await bundleOf(display.data) });
  return wire;
}

export async function bundleOf(data: MimeBundle): Promise<Bundle> {
  const bundle: Bundle = {};
  for (const [type, value] of Object.entries(data)) bundle[type] = await slowlyToWire(value);
  return bundle;
}

/** For an event, which is small: without pieces. */
export function whole<T extends object>(values: T): T {
  const parts = Object.entries(values).map(([name, value]) => {
    if (value instanceof JsonPieces) return [name, value.toJSON()];
    return name === 'data' && typeof value === 'object' && value !== null ? [name, whole(value)] : [name, value];
  });
  return Object.fromEntries(parts) as T;
}
