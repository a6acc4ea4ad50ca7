/** The messages of a task on their way to the daemon: numbered, in order, a few under way at once. */

import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RpcPeer } from '../../protocol/rpc-peer.ts';
import { ReportMessage } from '../../protocol/runner-methods.ts';

export interface TaskClaim {
  readonly session_token: string;
  readonly session_id: string;
  readonly task_id: string;
}

/** Enough to keep the wire busy while the daemon makes them durable, and less than it works on at once. */
const WINDOW = 32;
/** Far below the longest frame, whatever is escaped in it. */
const MOST_CHARACTERS = 2 * 1024 * 1024;

export class Reports {
  readonly #peer: RpcPeer;
  readonly #claim: TaskClaim;
  readonly #onRefused: () => void;
  readonly #underWay = new Set<Promise<void>>();
  #refusal: CellaError | undefined;
  #ended = false;
  #count = 0;

  /** @param onRefused the daemon takes no more: the turn has nobody left to tell */
  constructor(peer: RpcPeer, claim: TaskClaim, onRefused: () => void) {
    this.#peer = peer;
    this.#claim = claim;
    this.#onRefused = onRefused;
  }

  /** Resolves when there is room for more; rejects where the daemon has refused one. */
  async send(event: AgentEvent): Promise<void> {
    this.#check();
    this.#begin(tellable(event));
    while (this.#underWay.size >= WINDOW) await Promise.race(this.#underWay);
    this.#check();
  }

  /** All that were sent are durable, and none can be sent after it. */
  async end(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.#underWay);
    if (this.#refusal) throw this.#refusal;
  }

  get count(): number {
    return this.#count;
  }

  #check(): void {
    if (this.#refusal) throw this.#refusal;
    if (this.#ended) throw new CellaError('ABORTED', 'The turn has ended: nothing more can be told of it.');
  }

  /** The number is taken and the message written in one go, so that the order is that of the calls. */
  #begin(event: AgentEvent): void {
    this.#count += 1;
    const sent = this.#peer
      .call(ReportMessage, { ...this.#claim, sequence: this.#count, event })
      .then(
        () => {},
        (error: unknown) => this.#refuse(error),
      )
      .finally(() => this.#underWay.delete(sent));
    this.#underWay.add(sent);
  }

  #refuse(error: unknown): void {
    if (this.#refusal) return;
    this.#refusal =
      error instanceof CellaError
        ? error
        : new CellaError('INTERNAL', 'A message could not be sent.', { cause: error });
    this.#onRefused();
  }
}

/** What is too large for a message is told of, and left out. */
function tellable(event: AgentEvent): AgentEvent {
  const { length } = JSON.stringify(event);
  if (length <= MOST_CHARACTERS) return event;
  const text = `The agent's ${event.type} is left out: its ${length} characters are too many for an event.`;
  return { type: 'agent_notice', turn: event.turn, text };
}
