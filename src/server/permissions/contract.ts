/**
 * What waits for a person's leave in one session, whoever asks: an agent, or a tool that a kernel's code has called.
 * A session has them as `hosted.permissions` (`(await host.open(id)).permissions`).
 */

import type { PermissionOutcome } from '../../protocol/agent-events.ts';
import type {
  NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
  PermissionScope,
} from '../../protocol/api/agent-routes.ts';

export interface PermissionWish {
  /** On whose behalf: who has prompted. The rules of this user hold. */
  readonly user: string;
  readonly turn: string;
  readonly item?: string | undefined;
  readonly tool: string;
  /** For people to read. */
  readonly summary: string;
  readonly input?: unknown;
  /** What the agent thinks that a rule could say. It is shown, and decides nothing. */
  readonly pattern?: string | undefined;
  readonly question?: Question | undefined;
  /** Aborted where nobody waits any more: it ends as `cancelled`. */
  readonly signal: AbortSignal;
  /** Told its id where somebody has to be asked, when that can be seen. */
  readonly onAsked?: ((id: string) => void) | undefined;
  /** In place of the session's `permissionTimeoutMs`; 0 means any time. */
  readonly timeoutMs?: number | undefined;
}

export interface Question {
  readonly text: string;
  readonly options?: readonly { readonly label: string; readonly description?: string | undefined }[] | undefined;
}

/** What the asker is told: only `allowed` is a yes. */
export interface Decided {
  /** Undefined where nobody had to be asked. */
  readonly id?: string | undefined;
  readonly outcome: PermissionOutcome;
  readonly scope?: PermissionScope | undefined;
  /** For the agent to read. Always there where it is not allowed. */
  readonly reason?: string | undefined;
  /** The answer to a question. */
  readonly text?: string | undefined;
  /** The id of a user, or of a rule. */
  readonly by?: string | undefined;
}

export interface RuleBook {
  /** Oldest first. */
  list(): Promise<PermissionRule[]>;
  /** `INVALID_REQUEST` where no rule can have this pattern. The one that is there where it says the same. */
  add(rule: NewRule, by: string): Promise<PermissionRule>;
  /** `NOT_FOUND` where there is none. */
  delete(id: string): Promise<void>;
}

export interface SessionPermissions {
  /**
   * Resolves when it is decided, and when that is in storage and in the log; it rejects where storage fails. A rule of
   * the user or of the session decides at once. Where the very same was asked for when a server ended, it is that
   * request: its decision is taken, once, or waited for.
   */
  request(wish: PermissionWish): Promise<Decided>;
  /** Oldest first. */
  list(state?: PermissionInfo['state']): Promise<PermissionInfo[]>;
  /** `NOT_FOUND` where there is none. */
  get(id: string): Promise<PermissionInfo>;
  /** `by` is the user who is authenticated. `ALREADY_RESOLVED` with who and what in `details` where it is over. */
  decide(by: string, id: string, decision: PermissionDecision): Promise<PermissionInfo>;
  /** The turn is over or is being stopped: what it still waits for ends as `cancelled`. Resolves when that is in the log. */
  cancelOf(turn: string, reason?: string): Promise<void>;
  /** Somebody stops the agent: what a server that ended has left of this turn, or of all, ends as `cancelled`. */
  cancelLeft(turn?: string): Promise<void>;
  /** What is allowed in this session until it is deleted. */
  rules(): Promise<PermissionRule[]>;
  deleteRule(id: string): Promise<void>;
}
