/** What the turns of a session are asked for, and what runs them. */

import type { AgentProfile } from '../../protocol/agent-profile.ts';
import type { Transcript } from '../../protocol/api/agent-routes.ts';
import type { AgentName, PermissionMode, TurnInfo } from '../../protocol/turn.ts';
import type { ServerSession } from '../sessions/session-types.ts';
import type { TurnEnding, TurnTask } from './turn.ts';

/** A prompt as somebody sends it. */
export interface PromptWish {
  readonly prompt: string;
  /** The id of the user who asks: their credentials and budgets are used. */
  readonly by: string;
  readonly agent?: AgentName | undefined;
  readonly mode?: PermissionMode | undefined;
  readonly model?: string | undefined;
  readonly tools?: readonly string[] | undefined;
  /** Of the turn, once it runs; 0 means no limit. */
  readonly timeoutMs?: number | undefined;
  readonly onBusy?: 'queue' | 'refuse' | undefined;
  readonly profile?: { readonly name: string; readonly content: AgentProfile } | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Stops the turn: only for a caller who wants that when he goes. */
  readonly signal?: AbortSignal | undefined;
}

export interface AcceptedTurn {
  readonly turn: string;
  /** Whether another request with the same key has brought it. */
  readonly joined: boolean;
  /** As it was accepted. */
  readonly info: TurnInfo;
  /** The number of its `turn_started`, when its turn has come. Rejects where it never comes. */
  readonly started: Promise<number>;
  /** When its ending is durable. Failures are endings; it rejects only where it never began. */
  readonly ended: Promise<TurnInfo>;
}

export interface StopWish {
  readonly turn?: string | undefined;
  /** Also those that wait. */
  readonly all?: boolean | undefined;
}

/** The turns of one session: one at a time, in the order in which they were accepted. */
export interface SessionTurnsApi {
  prompt(wish: PromptWish): Promise<AcceptedTurn>;
  /** A prompt is about to come: whether what would run it is there, or is being started. Rejects where it could only fail. */
  warm(wish: { readonly agent: AgentName; readonly by: string }): Promise<boolean>;
  /** Gives those that were stopped; they have ended when it resolves. */
  stop(wish?: StopWish): Promise<readonly string[]>;
  get(turn: string): Promise<TurnInfo>;
  /** Newest first. */
  list(options?: { readonly limit?: number; readonly before?: string | undefined }): Promise<TurnPage>;
  /** The last conversation, or the named one; `NOT_FOUND`. */
  transcript(conversation?: string): Promise<Transcript>;
}

export interface TurnPage {
  readonly turns: TurnInfo[];
  readonly next?: string | undefined;
}

/** Runs a turn to its end. Rejects where it could not be run, or what ran it has failed. */
export type RunTurn = (task: TurnTask) => Promise<TurnEnding>;

/** What runs the turns of all sessions. */
export interface AgentRunner {
  readonly run: RunTurn;
  /** Rejects where a turn could only fail: no such agent, no program of it here, no key of this user's. */
  admit(wish: { readonly agent: AgentName; readonly userId: string }): Promise<void>;
  /** Starts what the next turn needs, where there is room; it is not waited for. Whether it is there, or on its way. */
  warm(session: Pick<ServerSession, 'tenant'>, agent: AgentName): Promise<boolean>;
  /** The session is closed: its executor is not needed. */
  retire(session: string, why: string): Promise<void>;
  /** The session is deleted: nothing is kept of its agents. */
  forget(session: string): Promise<void>;
}
