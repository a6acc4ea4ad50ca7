/** One turn while it waits and runs: why it is to stop, and who waits for its beginning and its end. */

import type { AgentEvent, AgentFailure } from '../../protocol/agent-events.ts';
import type { AgentProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { AgentName, PermissionMode, TokenUsage, TurnInfo, TurnStatus } from '../../protocol/turn.ts';
import type { NewPermission, PermissionResult } from '../permissions/session-permissions.ts';
import type { HostedSession } from '../sessions/session-types.ts';
import type { PromptWish } from './contract.ts';
import type { TurnRecord } from './records.ts';

/** As an agent asks for leave; on whose behalf is the turn's to say. */
export type PermissionAsk = Omit<NewPermission, 'user' | 'turn' | 'signal' | 'timeoutMs'>;

/** One turn for whoever runs it. */
export interface TurnTask {
  readonly session: Pick<HostedSession, 'id' | 'tenant'>;
  readonly info: SessionInfo;
  readonly turn: string;
  readonly userId: string;
  readonly agent: AgentName;
  readonly prompt: string;
  readonly mode: PermissionMode;
  readonly model: string | undefined;
  /** Those of the agent's own tools that it may use; without it, all. */
  readonly tools: readonly string[] | undefined;
  readonly profile: AgentProfile;
  /** To be gone on with. */
  readonly conversation: string | undefined;
  /** 0 means no limit. The signal is aborted when it is over. */
  readonly timeoutMs: number;
  /** Aborted where the turn is to stop, in whatever state it is. */
  readonly signal: AbortSignal;
  /** Resolves when there is room for more. */
  emit(event: AgentEvent): Promise<void>;
  /** Asks a person. It resolves as not allowed where the turn is stopped. */
  permit(ask: PermissionAsk): Promise<PermissionResult>;
  readTranscript(conversation: string): Promise<{ readonly revision: number; readonly text: string } | undefined>;
  /** An older one never takes the place of a newer one. */
  keepTranscript(conversation: string, text: string): Promise<void>;
}

export interface TurnEnding {
  readonly status: Exclude<TurnStatus, 'interrupted'>;
  readonly conversation?: string | undefined;
  readonly usage?: TokenUsage | undefined;
  readonly error?: AgentFailure | undefined;
}

/** `stopped`: somebody asked for it. `closing`: its session ends. `failed`: nothing of it can be written down. */
export type StopReason =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'closing' }
  | { readonly kind: 'failed'; readonly error: CellaError };

export class HostedTurn {
  readonly wish: PromptWish;
  record: TurnRecord;
  /** Set where it was stopped before its turn came. */
  takenBack: Promise<void> | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<TurnInfo>();
  readonly #stop = new AbortController();
  #reason: StopReason | undefined;

  constructor(wish: PromptWish, record: TurnRecord) {
    this.wish = wish;
    this.record = record;
    // Who has not asked for them does not wait for them.
    this.#started.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
    wish.signal?.addEventListener('abort', this.#gone, { once: true });
    if (wish.signal?.aborted) this.#gone();
  }

  readonly #gone = (): void => this.stop({ kind: 'stopped' });

  get id(): string {
    return this.record.id;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The first reason counts. */
  get reason(): StopReason | undefined {
    return this.#reason;
  }

  get started(): Promise<number> {
    return this.#started.promise;
  }

  get ended(): Promise<TurnInfo> {
    return this.#ended.promise;
  }

  stop(reason: StopReason): void {
    this.#reason ??= reason;
    this.#stop.abort();
  }

  /** Its turn has come. */
  begin(firstSeq: number): void {
    this.#started.resolve(firstSeq);
  }

  end(info: TurnInfo): void {
    this.#letGo();
    this.#started.reject(new CellaError('ABORTED', 'The turn was over before it began.'));
    this.#ended.resolve(info);
  }

  fail(error: Error): void {
    this.#letGo();
    this.#started.reject(error);
    this.#ended.reject(error);
  }

  /** The caller's signal may live for long after it. */
  #letGo(): void {
    this.wish.signal?.removeEventListener('abort', this.#gone);
  }
}
