/** Runs one turn from its start to its one end. Both are durable, also if the runner or, for a while, storage fails. */

import { setTimeout as delay } from 'node:timers/promises';
import { omitUndefined } from '../../lib/omit-undefined.ts';
import type { TurnInfo, TurnResult, TurnStatus } from '../../protocol/turn.ts';
import type { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import type { SessionPermissions } from '../permissions/session-permissions.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { finalResult, noAgentsError, resultOfFailure, type SessionTurn } from './session-turn.ts';
import type { TurnRunner } from './session-turns.ts';
import { type RecorderLimits, TurnRecorder, truncate } from './turn-recorder.ts';
import { endedEvent, type StoredTranscripts, type TurnRecords } from './turn-records.ts';

/** The pause before storage is tried again. */
const AGAIN_MS = 500;
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
      turn.fail(error instanceof Error ? error : new Error(String(error)));
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
    const firstSeq = await this.#parts.writer.write(event, { size: event.prompt.length, flushed: true });
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
        info: await session.info(),
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
            turn.record = {
              ...turn.record,
              ...(event.text === undefined ? {} : { text: truncate(event.text, RECORDED_CHARS) }),
            };
          }
          const parts = await events.toLogEvents(event);
          // Written in batches, so that the agent does not wait for each event.
          await Promise.all(parts.map((one) => writer.write(one, { size: JSON.stringify(one).length, soon: true })));
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
    const facts = {
      status,
      conversation,
      usage,
      error,
    };
    for (;;) {
      try {
        await this.#update(turn, { ...facts, endedAt: Date.now() });
        await this.#parts.writer.write(endedEvent(turn.record), { flushed: true });
        this.#parts.onEnded(status);
        return;
      } catch (cause) {
        if (this.#parts.isClosed()) throw cause;
        await delay(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  async #update(turn: SessionTurn, facts: Partial<TurnInfo>): Promise<void> {
    turn.record = { ...turn.record, ...omitUndefined(facts) };
    await this.#parts.records.put(turn.record);
  }
}
