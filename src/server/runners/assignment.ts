/** The one task that an executor has: what it may say of it, in which order, until it says that it is over. */

import { timingSafeEqual } from 'node:crypto';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { TaskOutcome } from '../../protocol/runner-methods.ts';
import type { TurnTask } from '../turns/contract.ts';
import type { TurnTask } from '../turns/turn.ts';
import { MessageOrder } from './message-order.ts';

/** What an executor says it speaks for. */
export interface Claim {
  readonly session_token: string;
  readonly session_id: string;
  readonly task_id: string;
}

export class Assignment {
  readonly task: TurnTask;
  readonly token: string;
  readonly #order = new MessageOrder();
  #written: Promise<void> = Promise.resolve();
  #completed: TaskOutcome | undefined;

  constructor(task: TurnTask, token: string) {
    this.task = task;
    this.token = token;
  }

  /** RUNNER_PROTOCOL where it speaks for anything else, or after the end. */
  admit({ session_token, session_id, task_id }: Claim): void {
    if (session_id !== this.task.session.id) throw forged('session');
    if (task_id !== this.task.turn) throw forged('task');
    if (!sameText(session_token, this.token)) throw forged('token');
    if (this.#completed) throw breach('spoke of a task after it had said that it is over');
  }

  /** Resolves when it is durable. Events go out in the order in which they came. `allowed`: whether it may still speak. */
  async take(sequence: number, event: AgentEvent, allowed: Promise<unknown>): Promise<void> {
    allowed.catch(() => {}); // told below, which may be long after it is known, or never
    if (event.turn !== this.task.turn) throw forged('turn');
    this.#order.take(sequence);
    const before = this.#written;
    const written = before.then(() => allowed).then(() => this.task.emit(event));
    // One that fails ends the connection: those after it are never asked for.
    this.#written = written.catch(() => {});
    await written;
  }

  async complete(outcome: TaskOutcome): Promise<void> {
    if (outcome.message_count !== this.#order.count) throw this.#miscounted(outcome);
    this.#completed = outcome;
    await this.#written;
  }

  /** What the reply to its prompt says must be what it has told. */
  check(outcome: TaskOutcome): TaskOutcome {
    if (outcome.message_count !== this.#order.count) throw this.#miscounted(outcome);
    if (this.#completed && this.#completed.status !== outcome.status) throw breach('told two endings of one task');
    return outcome;
  }

  #miscounted({ message_count }: TaskOutcome): CellaError {
    return breach(`counts ${message_count} messages of its task where ${this.#order.count} came`);
  }
}

export function breach(what: string): CellaError {
  return new CellaError('RUNNER_PROTOCOL', `The executor ${what}.`);
}

function forged(what: string): CellaError {
  return breach(`spoke for a ${what} that it was not given`);
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
