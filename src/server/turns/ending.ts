/** How a turn ended, from what ran it and from why it was stopped. */

import type { AgentFailure } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { TurnStatus } from '../../protocol/turn.ts';
import type { StopReason, TurnEnding } from './turn.ts';

export interface Ending extends Omit<TurnEnding, 'status'> {
  readonly status: TurnStatus;
}

/** What was stopped has ended by that, whatever it said last; what had come to its end before has not. */
export function endingOf(told: TurnEnding, reason: StopReason | undefined): Ending {
  if (!reason || told.status === 'completed') return told;
  const { error: _, ...rest } = told;
  return { ...rest, ...stopped(reason) };
}

/** Where what ran it has failed. */
export function failureOf(cause: unknown, reason: StopReason | undefined): Ending {
  if (reason) return stopped(reason);
  return { status: 'failed', error: toFailure(cause) };
}

function stopped(reason: StopReason): Ending {
  switch (reason.kind) {
    case 'stopped':
      return { status: 'cancelled' };
    case 'timed_out':
      return { status: 'timed_out' };
    case 'closing':
      return { status: 'interrupted', error: toFailure(interrupted()) };
    case 'failed':
      return { status: 'failed', error: toFailure(reason.error) };
  }
}

export function interrupted(): CellaError {
  return new CellaError('DAEMON_STOPPING', 'The server ended while the turn ran.', {
    advice: 'Prompt again: the agent goes on with its conversation.',
  });
}

/** No stack of ours goes out: what is not an error of the table is told by its message. */
export function toFailure(cause: unknown): AgentFailure {
  const error =
    cause instanceof CellaError
      ? cause
      : new CellaError('WORKER_FAILED', cause instanceof Error ? cause.message : String(cause));
  const { code, message, advice } = error.toJSON();
  return { code, message, advice };
}
