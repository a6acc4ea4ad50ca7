/** One turn of a coding agent at a server, from its prompt to its end. Runs once, and resumes like an execution. */

import { onAbort } from '../lib/abort.ts';
import { Backoff } from '../lib/backoff.ts';
import { omitUndefined } from '../lib/values.ts';
import type { AgentLogEvent } from '../protocol/agent-events.ts';
import { CellaError } from '../protocol/errors.ts';
import type { SessionEvent } from '../protocol/session-events.ts';
import { isTurnOver, type Prompted, type TurnInfo } from '../protocol/turn.ts';
import type { PromptedTurn, PromptOptions, TurnEvent } from '../session/api.ts';
import { type ApiClient, hasCode, SessionApiClient } from './api-client.ts';
import { newIdempotencyKey } from './remote-execution.ts';
import { subscribe } from './subscribe.ts';
import { aborted } from './transport.ts';

interface RemoteTurnOptions {
  readonly api: ApiClient;
  readonly sessionId: string;
  readonly prompt: string;
  readonly options: PromptOptions;
  readonly resumeMs: number;
  /** Aborted when this client closes the session. The turn continues at the server. */
  readonly closing: AbortSignal;
  /** Resolves when the previous prompt is at the server. The server queues prompts in the order of the calls. */
  readonly before: Promise<void>;
}

interface Accepted {
  readonly turn: Prompted;
  /** The number of the last event before the turn. */
  readonly after: number;
}

type Ended = Extract<AgentLogEvent, { type: 'turn_ended' }>;

export class RemoteTurn implements PromptedTurn {
  readonly #parts: RemoteTurnOptions;
  readonly #accepted: Promise<Accepted>;
  /** Resolves when the server has accepted the prompt, or when sending has failed. */
  readonly sent: Promise<void>;
  #end: Ended | undefined;
  #info: Promise<TurnInfo> | undefined;

  constructor(parts: RemoteTurnOptions) {
    this.#parts = parts;
    this.#accepted = this.#send();
    // The caller that follows the turn gets the error.
    this.sent = this.#accepted.then(({ turn }) => this.#stopOnAbort(turn.id)).catch(() => {});
  }

  /** The ended turn. Waits for the end if the caller does not iterate. */
  get turn(): Promise<TurnInfo> {
    this.#info ??= this.#ended();
    return this.#info;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    const { api, sessionId, resumeMs, closing: signal } = this.#parts;
    const { turn, after } = await this.#accepted;
    let last = Number.POSITIVE_INFINITY;
    for await (const item of subscribe(api, sessionId, { after, resumeMs, signal })) {
      if (item.type === 'trimmed') last = await this.#lastOf(turn.id);
      else if (isOf(item, turn.id)) {
        if (item.type === 'turn_ended') this.#end = item;
        yield item;
        if (item.type === 'turn_ended') return;
      }
      if ((item.type === 'trimmed' ? item.throughSeq : item.seq) >= last) return;
    }
    if (signal.aborted) throw new CellaError('SESSION_CLOSED', 'The session was closed here; its turn continues.');
    throw new CellaError('NOT_FOUND', 'The session was deleted before the turn had ended.');
  }

  /** The highest number that an event of the turn can have. Its end may be among the trimmed events. */
  async #lastOf(turn: string): Promise<number> {
    const { api, sessionId } = this.#parts;
    const info = await api.call('getTurn', { params: { id: sessionId, turn } });
    return isTurnOver(info) ? await new SessionApiClient(api, sessionId).position() : Number.POSITIVE_INFINITY;
  }

  async #ended(): Promise<TurnInfo> {
    const { api, sessionId } = this.#parts;
    if (!this.#end) for await (const _event of this);
    const { turn } = await this.#accepted;
    const info = await api.call('getTurn', { params: { id: sessionId, turn: turn.id } });
    if (!this.#end) return info;
    const { status, usage, error } = this.#end;
    return { ...info, status, ...omitUndefined({ usage, error }) };
  }

  /** Retries with the same key, so a broken connection does not prompt twice. */
  async #send(): Promise<Accepted> {
    const { api, sessionId, prompt, options, resumeMs, closing, before } = this.#parts;
    const { signal, ...wanted } = options;
    await before;
    if (signal?.aborted) throw aborted();
    const params = { id: sessionId };
    const after = await new SessionApiClient(api, sessionId).position();
    const backoff = new Backoff(resumeMs);
    const headers = { 'Idempotency-Key': newIdempotencyKey() };
    for (;;) {
      try {
        const body = { prompt, ...wanted, wait: false };
        return { after, turn: await api.call('promptAgent', { params, headers, body, signal: closing }) };
      } catch (error) {
        const passing = hasCode(error, 'SERVER_UNREACHABLE') && error.details.refused === false;
        if (!passing || closing.aborted) throw error;
        await backoff.wait(error);
      }
    }
  }

  /** The caller's signal stops the turn until this client has seen its end. */
  #stopOnAbort(turn: string): void {
    const { api, sessionId, options } = this.#parts;
    const stop = () => {
      // A turn that is over cannot be stopped. The caller that follows the turn gets any other error.
      if (!this.#end) api.call('stopAgent', { params: { id: sessionId }, body: { turn } }).catch(() => {});
    };
    onAbort(options.signal, stop);
  }
}

function isOf(item: SessionEvent, turn: string): item is TurnEvent {
  return 'turn' in item && item.turn === turn;
}
