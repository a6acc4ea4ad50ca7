/** The turns of a session in storage: records, transcripts, recovery after a server has ended, and the conversation so far. */

import { type Conversation, emptyConversation, reduceLogged } from '../../protocol/conversation.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import { isTurnOver, TurnInfo, toAgentFailure } from '../../protocol/turn.ts';
import { Collection } from '../../storage/collection.ts';
import type { DocumentStore, NewTranscript, StoredTranscript, TranscriptStore } from '../../storage/contract.ts';
import type { LogState } from '../events/session-log.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import type { TurnPage } from './session-turns.ts';

const COLLECTION = 'turns';
/** Per session; the oldest are deleted first. */
const MOST_RECORDS = 1000;
/** How many records may be added before old ones are deleted. */
const SLACK = 100;

export class TurnRecords {
  readonly #records: Collection<TurnInfo>;
  readonly #sessionId: string;
  #since = 0;

  constructor(documents: DocumentStore, sessionId: string) {
    this.#records = new Collection(documents, COLLECTION, TurnInfo);
    this.#sessionId = sessionId;
  }

  /** Durable when it resolves. */
  async put(record: TurnInfo): Promise<void> {
    await this.#records.put(this.#id(record.id), record);
  }

  /** Adds a new record, and now and then deletes the oldest. */
  async add(record: TurnInfo): Promise<void> {
    await this.put(record);
    if (++this.#since < SLACK) return;
    this.#since = 0;
    const ids = (await this.all()).filter(isTurnOver).map(({ id }) => id);
    for (const id of ids.slice(0, Math.max(0, ids.length - MOST_RECORDS))) await this.delete(id);
  }

  async find(turn: string): Promise<TurnInfo | undefined> {
    return (await this.#records.tryGet(this.#id(turn)))?.value;
  }

  async get(turn: string): Promise<TurnInfo> {
    const record = await this.find(turn);
    if (record) return record;
    throw new CellaError('NOT_FOUND', `The session has no turn ${turn}, or it has been removed.`);
  }

  async page({
    limit = 100,
    before,
  }: {
    readonly limit?: number;
    readonly before?: string | undefined;
  }): Promise<TurnPage> {
    const older = (await this.all()).filter(({ id }) => before === undefined || id < before).toReversed();
    const turns = older.slice(0, limit);
    return { turns, next: older.length > limit ? turns.at(-1)?.id : undefined };
  }

  /** Oldest first. */
  all(): Promise<TurnInfo[]> {
    return this.#records.list(this.#id(''));
  }

  async delete(turn: string): Promise<void> {
    await this.#records.delete(this.#id(turn));
  }

  /** Deletes all records of the session, also unreadable ones. */
  async remove(): Promise<void> {
    await this.#records.deleteAll(this.#id(''));
  }

  #id(turn: string): string {
    return `${this.#sessionId}/${turn}`;
  }
}

/**
 * Returns the events that the log lacks. A record gets its end before the log does: a turn without an end in its record has no
 * end in the log either, and a turn with one may lack it in the log.
 */
export async function recoverTurns(records: TurnRecords, position: LogState): Promise<SessionEventBody[]> {
  const endings: SessionEventBody[] = [];
  const open = new Set(position.turns);
  for (const record of await records.all()) {
    if (isTurnOver(record)) {
      if (open.delete(record.id)) endings.push(endedEvent(record));
      continue;
    }
    const ended: TurnInfo = {
      ...record,
      status: 'interrupted',
      endedAt: Date.now(),
      error: toAgentFailure(interrupted()),
    };
    await records.put(ended);
    open.delete(record.id);
    endings.push(endedEvent(ended));
  }
  // The record was deleted; the log still needs an end.
  for (const turn of open) endings.push({ type: 'turn_ended', turn, status: 'interrupted' });
  return endings;
}

export function interrupted(): CellaError {
  return new CellaError('SERVER_STOPPING', 'The server was stopped during the turn.', {
    advice: 'Prompt again: the agent continues its conversation.',
  });
}

export function endedEvent({ id, status, usage, error }: TurnInfo): SessionEventBody {
  return {
    type: 'turn_ended',
    turn: id,
    status: status === 'queued' || status === 'running' ? 'interrupted' : status,
    usage,
    error,
  };
}

export class StoredTranscripts {
  readonly #store: TranscriptStore;
  readonly #key: string;

  constructor(store: TranscriptStore, key: string) {
    this.#store = store;
    this.#key = key;
  }

  get(conversation: string): Promise<StoredTranscript | undefined> {
    return this.#store.get(this.#key, conversation);
  }

  /** Saves only a longer text: conversations only grow, so any other is older or the same. */
  async save(conversation: string, text: NewTranscript['text']): Promise<void> {
    const there = await this.get(conversation);
    await this.#store.put(this.#key, conversation, { revision: (there?.revision ?? 0) + 1, text, ifLonger: true });
  }
}

/** Ends early if the signal aborts. */
export async function readConversationState(
  session: Pick<ServerSession, 'events' | 'position'>,
  signal?: AbortSignal,
): Promise<Conversation> {
  const { trimmedThrough, last } = await session.position();
  let [state, seq] = [emptyConversation, trimmedThrough];
  if (last <= trimmedThrough) return { seq: last, state };
  for await (const item of session.events({ after: trimmedThrough, signal })) {
    if (item.type === 'trimmed') continue;
    state = reduceLogged(state, item);
    seq = item.seq;
    if (seq >= last) break;
  }
  return { seq, state };
}
