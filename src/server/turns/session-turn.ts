/** One turn while it waits and runs: why it stops, who waits for it, and how it ended. */

import { onAbort } from '../../lib/abort.ts';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import type { AgentProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { PermissionRequest } from '../../protocol/permission.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import {
  type AgentName,
  type PromptFields,
  type TurnInfo,
  type TurnResult,
  toAgentFailure,
} from '../../protocol/turn.ts';
import type { NewTranscript, StoredTranscript } from '../../storage/contract.ts';
import type { AskedResolution } from '../permissions/session-permissions.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import type { PromptRequest } from './session-turns.ts';

/** A turn as its runner gets it. */
export interface RunnerTurn extends Readonly<PromptFields> {
  readonly session: Pick<ServerSession, 'id' | 'runnerSpec'>;
  readonly info: SessionInfo;
  readonly id: string;
  readonly userId: string;
  readonly agent: AgentName;
  readonly profile: AgentProfile;
  /** The conversation to continue. */
  readonly conversation: string | undefined;
  /** Aborts when the turn must stop, also when its time is over. */
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
    this.#letGo();
    this.#started.reject(new CellaError('ABORTED', 'The turn ended before it started.'));
    this.#ended.resolve(info);
  }

  fail(error: Error): void {
    this.#letGo();
    this.#started.reject(error);
    this.#ended.reject(error);
  }

  /** The caller's signal may outlive the turn. */
  #letGo(): void {
    this.#aborting[Symbol.dispose]();
  }
}

/** A stopped turn ends by its stop reason, unless it was completed before. */
export function finalResult(result: TurnResult, reason: TurnStopReason | undefined): TurnResult {
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

export function interrupted(): CellaError {
  return new CellaError('SERVER_STOPPING', 'The server was stopped during the turn.', {
    advice: 'Prompt again: the agent continues its conversation.',
  });
}

export function noAgentsError(): CellaError {
  return new CellaError('CAPABILITY_MISSING', 'This server runs no agents.', {
    advice: 'Start it with `cella serve`, and install an agent: `cella agents install claude`.',
  });
}
