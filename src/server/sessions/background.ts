/** Writes down what a session tells between its executions: what threads write after their cell, saves, and how packages come. */

import type { BackgroundEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Session } from '../../session/session.ts';
import { jsonBytes, jsonText } from '../json-pieces.ts';
import type { EventWriter } from './event-writer.ts';
import type { Outputs } from './outputs.ts';
import { bundleOf, type RecordLimits, whole } from './recorder.ts';

export interface BackgroundParts {
  readonly writer: EventWriter;
  readonly outputs: Outputs;
  readonly limits: RecordLimits;
  /** The execution with this number in its kernel; without one, that which ended last. */
  readonly owner: (number?: number) => string | undefined;
}

export class Background {
  readonly #parts: BackgroundParts;
  /** How far packages are that are installed before a kernel starts: its session tells the same again when it is there. */
  #installing = new Set<string>();

  constructor(parts: BackgroundParts) {
    this.#parts = parts;
  }

  /** How far packages are that the next kernel needs before it starts. */
  tellProgress(text: string): void {
    this.#installing.add(text);
    this.#parts.writer.add({ type: 'progress', background: true, task: 'deps.sync', text }, text.length);
  }

  /** Resolves when the session is closed. */
  async record(session: Session): Promise<void> {
    const { writer } = this.#parts;
    const told = this.#installing;
    this.#installing = new Set();
    for await (const event of session.background()) {
      if (event.type === 'progress' && told.delete(event.text)) continue;
      const body = await bodyOf(event, this.#parts).catch(() => undefined); // its file could not be written
      if (body) writer.add(body, 'text' in body ? (body.text?.length ?? 0) : 0);
      if (writer.full) await writer.room();
    }
  }
}

async function bodyOf(
  event: BackgroundEvent,
  { outputs, limits, owner: ownerOf }: BackgroundParts,
): Promise<SessionEventBody> {
  if (event.type === 'saved') {
    const { id, names, bytes, lost } = event;
    return { type: 'saved', checkpoint: id, names, bytes, lost: [...lost] };
  }
  if (event.type === 'network_denied') return event;
  const number = event.type === 'progress' ? undefined : event.execution;
  const execution = ownerOf(number);
  const owner = {
    background: true as const,
    ...(execution === undefined ? {} : { execution }),
    ...(number === undefined ? {} : { number }),
  };
  if (event.type === 'progress') return { ...event, ...owner };
  if (event.type !== 'display') return { type: event.type, text: event.text, ...owner };
  const data = await bundleOf(event.data);
  const text = await jsonText(data);
  if (jsonBytes(text) <= limits.eventBytes) return { type: 'display', ...owner, data: whole(data) };
  return { type: 'display', ...owner, file: await outputs.keep('json', text) };
}
