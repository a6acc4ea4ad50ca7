/** One turn from its beginning to its one ending, both durable: what runs it may fail, and storage for a while, too. */

import { setTimeout as delay } from 'node:timers/promises';
import type { TurnStatus } from '../../protocol/turn.ts';
import type { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import type { SessionPermissionsApi } from '../permissions/session-permissions.ts';
import type { ServerSession } from '../sessions/session-types.ts';
import { noAgents } from './accepted.ts';
import { BoundedEvents, type Bounds, short } from './bounded.ts';
import type { AgentRunner } from './contract.ts';
import { type Ending, endingOf, failureOf } from './ending.ts';
import { infoOf, type TurnRecord, type TurnRecords } from './records.ts';
import { endedEvent } from './recover.ts';
import type { Transcripts } from './transcripts.ts';
import type { HostedTurn, TurnEnding } from './turn.ts';

/** How often storage that does not work is tried again. */
const AGAIN_MS = 500;
/** Of the prompt and of the last answer, what a record keeps. */
export const KEPT = 2000;

export interface StageParts {
  readonly session: ServerSession;
  readonly permissions: Pick<SessionPermissionsApi, 'request' | 'cancelOf' | 'cancelOrphaned'>;
  readonly writer: Pick<SessionLog, 'write' | 'full' | 'room'>;
  readonly outputs: Pick<OutputFiles, 'keep'>;
  readonly bounds: Bounds;
  /** Undefined where this server runs no agents. */
  readonly agents: AgentRunner | undefined;
  readonly records: TurnRecords;
  readonly transcripts: Transcripts;
  /** Whether its session has ended: the next who opens it tells what could not be told here. */
  readonly isClosed: () => boolean;
  readonly onEnded: (status: TurnStatus) => void;
}

/** Where the turns of one session run. */
export class Stage {
  readonly #parts: StageParts;

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  async perform(turn: HostedTurn): Promise<void> {
    const { outputs, bounds } = this.#parts;
    const events = new BoundedEvents(outputs, bounds);
    try {
      await this.#begin(turn, events);
    } catch (error) {
      // Whoever waits for it is told at once; what is kept of it says so when it can be written.
      turn.fail(error instanceof Error ? error : new Error(String(error)));
      return await this.finish(turn, failureOf(error, turn.reason));
    }
    await this.finish(turn, await this.#run(turn, events));
    turn.end(infoOf(turn.record));
  }

  async #begin(turn: HostedTurn, events: BoundedEvents): Promise<void> {
    const { id, agent, mode, model, by } = turn.record;
    const startedAt = Date.now();
    await this.#update(turn, { status: 'running', startedAt });
    const event = await events.started({
      type: 'turn_started',
      turn: id,
      agent,
      prompt: turn.wish.prompt,
      mode,
      ...(model === undefined ? {} : { model }),
      by,
    });
    const firstSeq = await this.#parts.writer.write(event, { size: event.prompt.length, flushed: true });
    await this.#update(turn, { firstSeq });
    turn.begin(firstSeq);
  }

  async #run(turn: HostedTurn, events: BoundedEvents): Promise<Ending> {
    const { session, writer, permissions, agents, records, transcripts } = this.#parts;
    const { record, wish } = turn;
    const { timeoutMs = 0 } = wish;
    const late = timeoutMs === 0 ? undefined : setTimeout(() => turn.stop({ kind: 'timed_out' }), timeoutMs);
    try {
      if (!agents) throw noAgents();
      const before = (await records.all()).findLast(
        ({ agent, conversation }) => agent === record.agent && conversation !== undefined,
      );
      const told: TurnEnding = await agents.run({
        session,
        info: await session.info(),
        turn: turn.id,
        userId: record.by,
        agent: record.agent,
        prompt: wish.prompt,
        mode: record.mode,
        model: record.model,
        tools: wish.tools,
        profile: wish.profile?.content ?? {},
        conversation: before?.conversation,
        timeoutMs,
        signal: turn.signal,
        emit: async (event) => {
          if (turn.reason?.kind === 'failed') throw turn.reason.error;
          if (event.type === 'agent_session') turn.record = { ...turn.record, conversation: event.conversation };
          if (event.type === 'item_completed' && event.kind === 'message' && event.parent === undefined) {
            turn.record = { ...turn.record, ...(event.text === undefined ? {} : { text: short(event.text, KEPT) }) };
          }
          const parts = await events.take(event);
          // Written with what comes next: whoever tells much need not wait for each.
          await Promise.all(parts.map((one) => writer.write(one, { size: JSON.stringify(one).length, soon: true })));
          if (writer.full) await writer.room();
        },
        permit: (ask) => permissions.request({ ...ask, user: record.by, turn: turn.id, signal: turn.signal }),
        readTranscript: (conversation) => transcripts.get(conversation),
        keepTranscript: (conversation, text) => transcripts.keep(conversation, text),
      });
      return endingOf(told, turn.reason);
    } catch (error) {
      return failureOf(error, turn.reason);
    } finally {
      clearTimeout(late);
      // Nobody waits for it any more. Where storage fails, whoever opens the session next finds it.
      await permissions.cancelOf(turn.id, 'the turn is over').catch(() => {});
    }
  }

  /** Told until storage takes it, or the session ends: whoever opens it next finds that it has not ended. */
  async finish(turn: HostedTurn, { status, conversation, usage, error }: Ending): Promise<void> {
    const facts = {
      status,
      ...(conversation === undefined ? {} : { conversation }),
      ...(usage === undefined ? {} : { usage }),
      ...(error === undefined ? {} : { error }),
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

  async #update(turn: HostedTurn, facts: Partial<TurnRecord>): Promise<void> {
    turn.record = { ...turn.record, ...facts };
    await this.#parts.records.put(turn.record);
  }
}
