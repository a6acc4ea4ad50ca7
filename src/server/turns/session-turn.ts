/**
 * One turn: who waits for it, why it stops, and its run from a durable start to one durable end, even if the runner fails, or
 * storage fails for a while. Long texts are truncated in the log and kept whole in a file.
 */

import { onAbort } from '../../lib/abort.ts';
import { giveWay } from '../../lib/event-loop.ts';
import { asError, omitUndefined } from '../../lib/values.ts';
import type { AgentEvent, AgentLogEvent } from '../../protocol/agent-events.ts';
import type { AgentProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { OutputFile } from '../../protocol/execution-events.ts';
import { jsonBeginning, jsonBytes, jsonText } from '../../protocol/json-pieces.ts';
import type { PermissionRequest } from '../../protocol/permission.ts';
import {
  type AgentName,
  type PromptFields,
  type TurnInfo,
  type TurnResult,
  type TurnStatus,
  toAgentFailure,
} from '../../protocol/turn.ts';
import type { NewTranscript, StoredTranscript } from '../../storage/contract.ts';
import type { OutputFiles } from '../events/output-files.ts';
import { type SessionLog, writeEventually } from '../events/session-log.ts';
import type { AskedResolution, SessionPermissions } from '../permissions/session-permissions.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import type { PromptRequest, TurnRunner } from './session-turns.ts';
import { endedEvent, interrupted, type StoredTranscripts, type TurnRecords } from './turn-records.ts';

/** A turn as its runner gets it. */
export interface RunnerTurn extends Readonly<PromptFields> {
  readonly session: Pick<ServerSession, 'id' | 'runnerSpec'>;
  readonly id: string;
  readonly userId: string;
  readonly agent: AgentName;
  readonly profile: AgentProfile;
  /** The conversation to continue. */
  readonly conversation: string | undefined;
  /** Aborts when the turn must stop, also at its timeout. */
  readonly signal: AbortSignal;
  /** Resolves when there is room for more. */
  emit(event: AgentEvent): Promise<void>;
  /** Asks a person. Resolves as not allowed if the turn is stopped. `onAsked`: called if a person is asked. */
  permit(request: PermissionRequest, onAsked?: (id: string) => void): Promise<AskedResolution>;
  readTranscript(conversation: string): Promise<Pick<StoredTranscript, 'length' | 'text'> | undefined>;
  /** An older transcript never replaces a newer one. */
  saveTranscript(conversation: string, text: NewTranscript['text']): Promise<void>;
}

/** `stopped`: by a user. `closing`: its session ends. `failed`: the log cannot be written. */
type TurnStopReason =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'closing' }
  | { readonly kind: 'failed'; readonly error: CellaError };

export class SessionTurn {
  readonly request: PromptRequest;
  record: TurnInfo;
  /** Set if it was stopped while it was queued. */
  cancelled: Promise<void> | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<TurnInfo>();
  readonly #stop = new AbortController();
  readonly #aborting: Disposable;
  #reason: TurnStopReason | undefined;

  constructor(request: PromptRequest, record: TurnInfo) {
    this.request = request;
    this.record = record;
    // Callers may ignore either promise.
    this.#started.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
    this.#aborting = onAbort(request.signal, () => this.stop({ kind: 'stopped' }));
  }

  get id(): string {
    return this.record.id;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The first reason counts. */
  get reason(): TurnStopReason | undefined {
    return this.#reason;
  }

  get started(): Promise<number> {
    return this.#started.promise;
  }

  get ended(): Promise<TurnInfo> {
    return this.#ended.promise;
  }

  stop(reason: TurnStopReason): void {
    this.#reason ??= reason;
    this.#stop.abort();
  }

  /** It runs now. */
  begin(firstSeq: number): void {
    this.#started.resolve(firstSeq);
  }

  end(info: TurnInfo): void {
    this.#stopListening();
    this.#started.reject(new CellaError('ABORTED', 'The turn ended before it started.'));
    this.#ended.resolve(info);
  }

  fail(error: Error): void {
    this.#stopListening();
    this.#started.reject(error);
    this.#ended.reject(error);
  }

  /** The caller's signal may outlive the turn. */
  #stopListening(): void {
    this.#aborting[Symbol.dispose]();
  }
}

/** A stopped turn ends by its stop reason, unless it was completed before. */
function finalResult(result: TurnResult, reason: TurnStopReason | undefined): TurnResult {
  if (!reason || result.status === 'completed') return result;
  const { error: _, ...rest } = result;
  return { ...rest, ...resultOfStop(reason) };
}

/** The result if the runner has failed. */
export function resultOfFailure(cause: unknown, reason: TurnStopReason | undefined): TurnResult {
  if (reason) return resultOfStop(reason);
  return { status: 'failed', error: toAgentFailure(cause) };
}

function resultOfStop(reason: TurnStopReason): TurnResult {
  switch (reason.kind) {
    case 'stopped':
      return { status: 'cancelled' };
    case 'timed_out':
      return { status: 'timed_out' };
    case 'closing':
      return { status: 'interrupted', error: toAgentFailure(interrupted()) };
    case 'failed':
      return { status: 'failed', error: toAgentFailure(reason.error) };
  }
}

export function noAgentsError(): CellaError {
  return new CellaError('CAPABILITY_MISSING', 'This server runs no agents.', {
    advice: 'Start it with `cella serve`, and install an agent: `cella agents install claude`.',
  });
}

/** How much of the prompt and of the last answer a record keeps. */
export const RECORDED_CHARS = 2000;

export interface TurnExecutorParts {
  readonly session: ServerSession;
  readonly permissions: Pick<SessionPermissions, 'request' | 'cancelOf' | 'cancelOrphaned'>;
  readonly writer: Pick<SessionLog, 'write' | 'full' | 'room'>;
  readonly outputs: Pick<OutputFiles, 'keep'>;
  readonly bounds: RecorderLimits;
  /** Undefined if this server runs no agents. */
  readonly agents: TurnRunner | undefined;
  readonly records: TurnRecords;
  readonly transcripts: StoredTranscripts;
  /** Whether its session has ended. The next server then records the end of the turn. */
  readonly isClosed: () => boolean;
  readonly onEnded: (status: TurnStatus) => void;
}

/** Runs the turns of one session. */
export class TurnExecutor {
  readonly #parts: TurnExecutorParts;

  constructor(parts: TurnExecutorParts) {
    this.#parts = parts;
  }

  async run(turn: SessionTurn): Promise<void> {
    const { outputs, bounds } = this.#parts;
    const events = new TurnRecorder(outputs, bounds);
    try {
      await this.#begin(turn, events);
    } catch (error) {
      // The caller gets the error at once; the record follows when storage works.
      turn.fail(asError(error));
      return await this.finish(turn, resultOfFailure(error, turn.reason));
    }
    await this.finish(turn, await this.#run(turn, events));
    turn.end(turn.record);
  }

  async #begin(turn: SessionTurn, events: TurnRecorder): Promise<void> {
    const { id, agent, mode, model, by } = turn.record;
    const startedAt = Date.now();
    await this.#update(turn, { status: 'running', startedAt });
    const event = await events.turnStarted({
      type: 'turn_started',
      turn: id,
      agent,
      prompt: turn.request.prompt,
      mode,
      model,
      by,
    });
    const firstSeq = await this.#parts.writer.write(event, { flushed: true });
    await this.#update(turn, { firstSeq });
    turn.begin(firstSeq);
  }

  async #run(turn: SessionTurn, events: TurnRecorder): Promise<TurnResult> {
    const { session, writer, permissions, agents, records, transcripts } = this.#parts;
    const { record, request } = turn;
    const { timeoutMs = 0 } = request;
    const late = timeoutMs === 0 ? undefined : setTimeout(() => turn.stop({ kind: 'timed_out' }), timeoutMs);
    try {
      if (!agents) throw noAgentsError();
      const before = (await records.all()).findLast(
        ({ agent, conversation }) => agent === record.agent && conversation !== undefined,
      );
      const result = await agents.run({
        session,
        id: turn.id,
        userId: record.by,
        agent: record.agent,
        prompt: request.prompt,
        mode: record.mode,
        model: record.model,
        tools: request.tools,
        profile: request.profile?.content ?? {},
        conversation: before?.conversation,
        signal: turn.signal,
        emit: async (event) => {
          if (turn.reason?.kind === 'failed') throw turn.reason.error;
          if (event.type === 'agent_session') turn.record = { ...turn.record, conversation: event.conversation };
          if (event.type === 'item_completed' && event.kind === 'message' && event.parent === undefined) {
            const text = event.text === undefined ? turn.record.text : truncate(event.text, RECORDED_CHARS);
            turn.record = { ...turn.record, text };
          }
          // Written in batches, so that the agent does not wait for each event.
          const written: Promise<number>[] = [];
          for (const one of await events.toLogEvents(event)) {
            await giveWay();
            written.push(writer.write(one, { soon: true }));
          }
          await Promise.all(written);
          if (writer.full) await writer.room();
        },
        permit: (asked, onAsked) =>
          permissions.request(asked, { user: record.by, turn: turn.id, signal: turn.signal, onAsked }),
        readTranscript: (conversation) => transcripts.get(conversation),
        saveTranscript: (conversation, text) => transcripts.save(conversation, text),
      });
      return finalResult(result, turn.reason);
    } catch (error) {
      return resultOfFailure(error, turn.reason);
    } finally {
      clearTimeout(late);
      // If storage fails, recovery cancels them when the session is opened next.
      await permissions.cancelOf(turn.id, 'the turn has ended').catch(() => {});
    }
  }

  /** Tries until storage accepts it or the session ends; then recovery marks the turn as interrupted. */
  async finish(turn: SessionTurn, { status, conversation, usage, error }: TurnResult): Promise<void> {
    const { writer, isClosed, onEnded } = this.#parts;
    await writeEventually(async () => {
      await this.#update(turn, { status, conversation, usage, error, endedAt: Date.now() });
      await writer.write(endedEvent(turn.record), { flushed: true });
    }, isClosed);
    onEnded(status);
  }

  async #update(turn: SessionTurn, facts: Partial<TurnInfo>): Promise<void> {
    turn.record = { ...turn.record, ...omitUndefined(facts) };
    await this.#parts.records.put(turn.record);
  }
}

/** How much an event shows of a text that is too large for it. */
const SHOWN_CHARS = 4096;
const MOST_ENTRIES = 200;

interface RecorderLimits {
  readonly eventBytes: number;
  /** The most that one turn may write to files. */
  readonly fileBytes: number;
}

type TurnStarted = Extract<AgentLogEvent, { type: 'turn_started' }>;

class TurnRecorder {
  readonly #outputs: Pick<OutputFiles, 'keep'>;
  readonly #bounds: RecorderLimits;
  #kept = 0;

  constructor(outputs: Pick<OutputFiles, 'keep'>, bounds: RecorderLimits) {
    this.#outputs = outputs;
    this.#bounds = bounds;
  }

  /** Splits a long delta into several. */
  async toLogEvents(event: AgentEvent): Promise<AgentEvent[]> {
    const { eventBytes } = this.#bounds;
    if (jsonBytes(await jsonText(event)) <= eventBytes) return [event];
    switch (event.type) {
      case 'item_delta':
        return pieces(event.text, Math.floor(eventBytes / 4)).map((text) => ({ ...event, text }));
      case 'item_started':
      case 'item_completed':
      case 'agent_raw':
        return [{ ...(await this.#cut(event)) }];
      case 'plan':
        return [{ ...event, entries: event.entries.slice(0, MOST_ENTRIES).map(truncateText) }];
      case 'agent_notice':
        return [truncateText(event)];
      case 'agent_error': {
        const { code, message, advice } = event.error;
        const error = { code: truncate(code), message: truncate(message), advice: truncate(advice) };
        return [{ ...event, error }];
      }
      case 'agent_session':
        return [{ ...event, tools: event.tools?.slice(0, MOST_ENTRIES).map(truncate) ?? [] }];
      case 'file_changed':
        return [{ ...event, path: truncate(event.path) }];
      case 'usage':
        return [event];
    }
  }

  async turnStarted(event: TurnStarted): Promise<TurnStarted> {
    if (event.prompt.length <= this.#bounds.eventBytes) return event;
    const file = await this.#keep({ prompt: event.prompt });
    return { ...event, prompt: truncate(event.prompt), file };
  }

  async #cut(
    event: Extract<AgentEvent, { type: 'item_started' | 'item_completed' | 'agent_raw' }>,
  ): Promise<AgentEvent> {
    if (event.type === 'agent_raw') {
      const file = await this.#keep({ native: event.native });
      return { ...event, native: truncate(await jsonBeginning(event.native, SHOWN_CHARS)), file };
    }
    const { input } = event;
    const json = input === undefined ? '' : await jsonBeginning(input, SHOWN_CHARS);
    const shown = json.length > SHOWN_CHARS ? { input: truncate(json) } : {};
    if (event.type === 'item_started') {
      const file = await this.#keep({ input });
      return { ...event, ...shown, file };
    }
    const { text, output } = event;
    const file = await this.#keep({ text, input, output });
    const texts = {
      text: text === undefined ? undefined : truncate(text),
      output: output === undefined ? undefined : truncate(output),
    };
    return { ...event, ...shown, ...texts, file };
  }

  /** Undefined if the turn has used up its file bytes: then only the truncated text is kept. */
  async #keep(content: Record<string, unknown>): Promise<OutputFile | undefined> {
    const text = await jsonText(content);
    const bytes = jsonBytes(text);
    if (this.#kept + bytes > this.#bounds.fileBytes) return undefined;
    this.#kept += bytes;
    return await this.#outputs.keep('json', text);
  }
}

function truncateText<T extends { readonly text: string }>(one: T): T {
  return { ...one, text: truncate(one.text) };
}

/** Truncates a text without splitting a surrogate pair. */
export function truncate(text: string, most = SHOWN_CHARS): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '');
}

function pieces(text: string, most: number): string[] {
  const parts: string[] = [];
  for (let rest = text; rest !== ''; ) {
    const part = truncate(rest, most);
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return parts;
}
