/** The coding agent of a session at a server. */

import { GetTurn, PromptAgent, ReadTranscript, StopAgent, type Transcript } from '../protocol/http/agent-routes.ts';
import { ReadEvents } from '../protocol/http/execution-routes.ts';
import type { TurnInfo } from '../protocol/http/turns.ts';
import type { PromptedTurn, PromptOptions, TurnEvent } from '../session/api.ts';
import { isCode } from './failure.ts';
import { follow } from './follow.ts';
import type { Link } from './link.ts';
import { Patience } from './patience.ts';

export interface AgentPlace {
  readonly link: Link;
  readonly id: string;
  readonly resumeMs: number;
  readonly closing: AbortSignal;
  readonly check: () => void;
}

export class RemoteAgent {
  readonly #place: AgentPlace;

  constructor(place: AgentPlace) {
    this.#place = place;
  }

  prompt(prompt: string, options: PromptOptions = {}): PromptedTurn {
    this.#place.check();
    return new RemoteTurn(this.#place, prompt, options);
  }

  async stop({ turn, all }: { readonly turn?: string; readonly all?: boolean } = {}): Promise<readonly string[]> {
    const { link, id, check } = this.#place;
    check();
    return (await link.call(StopAgent, { params: { id }, body: { turn, all } })).turns;
  }

  async transcript({ conversation }: { readonly conversation?: string } = {}): Promise<Transcript> {
    const { link, id, check } = this.#place;
    check();
    return await link.call(ReadTranscript, { params: { id }, query: { conversation } });
  }
}

interface Accepted {
  readonly turn: string;
  /** The number of the last event before it. */
  readonly after: number;
}

class RemoteTurn implements PromptedTurn {
  readonly #place: AgentPlace;
  readonly #accepted: Promise<Accepted>;
  #turn: Promise<TurnInfo> | undefined;

  constructor(place: AgentPlace, prompt: string, { signal, ...options }: PromptOptions) {
    this.#place = place;
    this.#accepted = this.#send(prompt, options);
    this.#accepted.catch(() => {}); // told to whoever asks for events or for the end
    const stop = () => void this.#stop().catch(() => {}); // it has ended, or the server is gone and has stopped it
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
  }

  get turn(): Promise<TurnInfo> {
    this.#turn ??= this.#end();
    return this.#turn;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TurnEvent, void, undefined> {
    const { link, id, resumeMs, closing } = this.#place;
    const { turn, after } = await this.#accepted;
    const over = new AbortController();
    const signal = AbortSignal.any([closing, over.signal]);
    try {
      for await (const event of follow(link, id, { after, resumeMs, signal })) {
        if (!('turn' in event) || event.turn !== turn) continue;
        yield event;
        if (event.type === 'turn_ended') return;
      }
    } finally {
      over.abort();
    }
  }

  async #end(): Promise<TurnInfo> {
    const { link, id } = this.#place;
    // Whoever wants its end alone lets the events pass.
    for await (const _event of this);
    const { turn } = await this.#accepted;
    return await link.call(GetTurn, { params: { id, turn } });
  }

  /** Where nobody knows whether it arrived, it is sent again under the same key. */
  async #send(prompt: string, options: Omit<PromptOptions, 'signal'>): Promise<Accepted> {
    const { link, id, resumeMs, closing } = this.#place;
    const patience = new Patience(resumeMs);
    const idempotencyKey = crypto.randomUUID();
    const { last: after } = await link.call(ReadEvents, {
      params: { id },
      query: { after: Number.MAX_SAFE_INTEGER, limit: 1 },
    });
    for (;;) {
      try {
        const body = { ...options, prompt, wait: false };
        const { id: turn } = await link.call(PromptAgent, { params: { id }, body, idempotencyKey, signal: closing });
        return { turn, after };
      } catch (error) {
        if (!isCode(error, 'DAEMON_UNREACHABLE', 'DAEMON_STOPPING', 'SESSION_ELSEWHERE')) throw error;
        await patience.wait(error);
      }
    }
  }

  async #stop(): Promise<void> {
    const { link, id } = this.#place;
    const { turn } = await this.#accepted;
    await link.call(StopAgent, { params: { id }, body: { turn } });
  }
}
