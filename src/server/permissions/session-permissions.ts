/**
 * The permissions of one session: requests from agents and from tools that kernel code calls, the people who can answer,
 * their decisions and the rules that decide without asking.
 */

import { omitUndefined } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import {
  type Approval,
  type ApprovalRequest,
  PermissionDecision,
  type PermissionInfo,
  type PermissionRequest,
  type PermissionRule,
  type Resolution,
} from '../../protocol/permission.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { SessionLog } from '../events/session-log.ts';
import type { SessionExecutions } from '../sessions/session-executions.ts';
import {
  type DescribedPermission,
  describeAgentRequest,
  describeToolCall,
  isTooLong,
  newPermissionInfo,
  ruledCallOf,
} from './described-permissions.ts';
import { PendingPermission, recordDecision, UnclaimedDecisions } from './pending-permission.ts';
import {
  announceRequest,
  claimedText,
  PermissionRecords,
  type RecordsAndLog,
  recoverPermissions,
  requestedEvent,
  resolvedEvent,
} from './permission-records.ts';
import { checkPattern, exactPattern, matches, PermissionRuleStore, type RuleTarget } from './permission-rules.ts';

/** The turn that asks. */
export interface PermissionAsker {
  /** The user who sent the prompt. Their rules apply. */
  readonly user: string;
  readonly turn: string;
  /** Aborts when the asker is gone: the request ends as `cancelled`. */
  readonly signal: AbortSignal;
  /** Called with the id once a person is asked and the log contains the request. */
  readonly onAsked?: ((id: string) => void) | undefined;
  /** Instead of the session's `permissionTimeoutMs`; 0 means no limit. */
  readonly timeoutMs?: number | undefined;
}

/** `id` is undefined if nobody was asked. Only `allowed` is a yes; otherwise `reason` is set. */
export type AskedResolution = Resolution & { readonly id?: string | undefined };

interface SessionPermissionsParts {
  readonly sessionId: string;
  /** The id of the session's owner. */
  readonly ownerId: string;
  /** The session's own documents. */
  readonly documents: DocumentStore;
  readonly writer: Pick<SessionLog, 'write'>;
  readonly executions: Pick<SessionExecutions, 'asker'>;
  /** How long requests of agents and of kernel tools may wait. */
  readonly definition: { readonly settings: Pick<SessionInfo['settings'], 'permissionTimeoutMs' | 'inputTimeoutMs'> };
}

const NOBODY = 'nobody can be asked';
const TOO_LONG = 'its request is too long to show';
const TOO_MANY = 'too many requests are already pending';
/** Pending requests of one session. */
const MOST_WAITING = 100;

export class SessionPermissions {
  readonly #parts: SessionPermissionsParts;
  readonly #records: PermissionRecords;
  /** The rules of this session; they end with it. */
  readonly rules: PermissionRuleStore;
  /** The connected clients that can also answer the kernel tools' pending requests. */
  readonly responders = new Responders();
  readonly #waiting = new Map<
    string,
    { readonly waiting: PendingPermission; readonly rule: DescribedPermission['rule'] }
  >();
  readonly #unclaimed: UnclaimedDecisions;
  /** Whether the server is shutting down. */
  #isShuttingDown = false;

  constructor(parts: SessionPermissionsParts) {
    this.#parts = parts;
    this.#records = new PermissionRecords(parts.documents, parts.sessionId);
    this.rules = new PermissionRuleStore(parts.documents, { session: parts.sessionId });
    this.#unclaimed = new UnclaimedDecisions(
      this.#records,
      ({ turn }) => parts.definition.settings[turn === undefined ? 'inputTimeoutMs' : 'permissionTimeoutMs'],
    );
  }

  /**
   * Resolves once the decision is in storage and in the log; rejects if storage fails. A rule of the user or of the
   * session decides at once. If the same request was pending or unclaimed when an earlier server ended, this call takes
   * that one up.
   */
  async request(request: PermissionRequest, asker: PermissionAsker): Promise<AskedResolution> {
    const { signal, onAsked, timeoutMs = this.#parts.definition.settings.permissionTimeoutMs } = asker;
    return await this.#ask(await describeAgentRequest(request, asker), { signal, timeoutMs, onAsked });
  }

  /** For a tool that kernel code calls. Denied if no responder is connected, so that the code does not hang. */
  async approveToolCall(call: ApprovalRequest): Promise<Approval> {
    const asking = {
      signal: call.signal,
      timeoutMs: this.#parts.definition.settings.inputTimeoutMs,
      needsResponder: true,
    };
    const { outcome, reason } = await this.#ask(await describeToolCall(call, this.#parts.executions.asker), asking);
    return { allowed: outcome === 'allowed', reason };
  }

  /** Oldest first. */
  async list(state?: PermissionInfo['state']): Promise<PermissionInfo[]> {
    const all = (await this.#records.all()).map(({ info }) => info);
    return state === undefined ? all : all.filter((info) => info.state === state);
  }

  /** Throws `NOT_FOUND`. */
  async get(id: string): Promise<PermissionInfo> {
    return (await this.#records.get(id)).info;
  }

  /** `by` is the authenticated user. Throws `ALREADY_RESOLVED`, with the earlier decision in `details`. */
  async decide(by: string, id: string, decision: PermissionDecision): Promise<PermissionInfo> {
    const given = PermissionDecision.parse(decision);
    const found = this.#waiting.get(id);
    if (!found) throw alreadyResolved(await this.get(id));
    const { waiting, rule } = found;
    if (given.decision === 'deny') {
      const { reason = 'the person denied it' } = given;
      if (waiting.resolve({ outcome: 'denied', reason, by })) return await waiting.written;
      throw alreadyResolved(await waiting.written);
    }
    const { scope, text } = given;
    const pattern = scope === 'once' ? undefined : patternForRule(given.pattern, rule?.target);
    const kept = Promise.withResolvers<void>();
    if (!waiting.resolve({ outcome: 'allowed', scope, by, text }, kept.promise)) {
      throw alreadyResolved(await waiting.written);
    }
    // The rule is stored before the decision is announced.
    const keep = async () => {
      if (rule && pattern !== undefined)
        await this.#rulesFor(scope, by).add({ tool: rule.tool, pattern, definition: rule.definition }, by);
    };
    await keep().then(kept.resolve, kept.reject);
    return await waiting.written;
  }

  /** Cancels the pending requests of this turn. Resolves once the log contains that. */
  async cancelOf(turn: string, reason = 'the turn was stopped'): Promise<void> {
    await this.#cancel((info) => info.turn === turn, reason);
  }

  /**
   * Cancels the requests that an earlier server left pending, of this turn or of all turns, because the user stopped the agent.
   */
  async cancelOrphaned(turn?: string): Promise<void> {
    const matches = (info: PermissionInfo) => info.turn !== undefined && (turn === undefined || info.turn === turn);
    await this.#unclaimed.discard(matches);
    await this.#cancel((info, { isOrphaned }) => isOrphaned && matches(info), 'the turn was stopped');
  }

  /** Loads requests that an earlier server left pending, unlogged or unclaimed. Runs before the log is read. */
  async recover(): Promise<void> {
    const { pending, unclaimed } = await recoverPermissions(this.#records, this.#parts.writer);
    for (const record of unclaimed) this.#unclaimed.add(record);
    const all = pending.map((record) => new PendingPermission(record, { isOrphaned: true }));
    for (const waiting of all) void this.#follow(waiting, ruledCallOf(waiting.info));
    // End requests that have expired in the meantime.
    const late = all.filter(({ info }) => (info.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now());
    await Promise.all(late.map(({ written }) => written));
  }

  /** The server is shutting down: from now on requests are left pending instead of cancelled. */
  beginShutdown(): void {
    this.#isShuttingDown = true;
    for (const { waiting } of this.#waiting.values()) waiting.keepForNextServer();
  }

  /** Cancels all requests, because they can no longer be decided. */
  async close(): Promise<void> {
    await this.#cancel(() => true, 'its session has ended').catch(() => {}); // the next server finds it
  }

  /** No await between the check for earlier requests and the registration of this one. */
  async #ask(
    wanted: DescribedPermission,
    { signal, timeoutMs, needsResponder = false, onAsked }: AskOptions,
  ): Promise<AskedResolution> {
    const { rule, request } = wanted;
    const info = newPermissionInfo(wanted, this.#parts.sessionId, timeoutMs);
    const allowing = rule && (await this.#findRule(rule, info));
    const taken = this.#unclaimed.claim(request);
    if (taken) return await this.#answerClaimed(await taken, info);
    if (allowing) return await this.#answerByRule(info, allowing);
    if (needsResponder && this.responders.isEmpty) return denied(NOBODY);
    const left = [...this.#waiting.values()].find(({ waiting }) => waiting.isOrphaned && waiting.request === request);
    if (!left && isTooLong(info)) return denied(TOO_LONG);
    if (!left && this.#waiting.size >= MOST_WAITING) return denied(TOO_MANY);
    const waiting = left?.waiting ?? new PendingPermission({ info, request });
    if (left) waiting.attach(omitUndefined({ turn: info.turn, item: info.item, execution: info.execution }));
    else void this.#follow(waiting, rule);
    using _until = waiting.cancelOn(signal);
    using _asked = needsResponder ? this.responders.ask(waiting.info.id, () => waiting.cancel(NOBODY)) : undefined;
    await waiting.announce(() => announceRequest(this.#recordsAndLog, waiting), { isAttached: left !== undefined });
    onAsked?.(waiting.info.id);
    return toResult(await waiting.written);
  }

  /** Follows the request until it is resolved. Errors go to the asker and to the decider. */
  async #follow(waiting: PendingPermission, rule: DescribedPermission['rule']): Promise<void> {
    const { id } = waiting.info;
    this.#waiting.set(id, { waiting, rule });
    if (this.#isShuttingDown) waiting.keepForNextServer();
    using _expiry = waiting.startTimeout();
    try {
      await recordDecision(this.#recordsAndLog, waiting, (record) => {
        this.#unclaimed.add(record);
        this.#waiting.delete(id);
      });
      void this.#records.prune().catch(() => {}); // tried again after the next one
    } catch (error) {
      waiting.fail(error);
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** A rule allows the request: only the log says so; no record is kept. */
  async #answerByRule(info: PermissionInfo, { id: by, session }: PermissionRule): Promise<AskedResolution> {
    const scope = session === undefined ? 'always' : 'session';
    const over: PermissionInfo = { ...info, resolution: { outcome: 'allowed', by, scope, at: Date.now() } };
    if (isTooLong(info)) return denied(TOO_LONG);
    for (const event of [requestedEvent(over), resolvedEvent(over)]) if (event) await this.#parts.writer.write(event);
    return toResult(over);
  }

  /** An earlier decision applies: the turn gets a notice that names the user who decided. */
  async #answerClaimed(decided: PermissionInfo, { turn }: PermissionInfo): Promise<AskedResolution> {
    if (turn !== undefined) await this.#parts.writer.write({ type: 'agent_notice', turn, text: claimedText(decided) });
    return toResult(decided);
  }

  /** For kernel tools, a user's own rules apply only in their own sessions: elsewhere the code of its owner could use them. */
  async #findRule(rule: NonNullable<DescribedPermission['rule']>, { user, turn }: PermissionInfo) {
    const holds = user !== undefined && (turn !== undefined || user === this.#parts.ownerId);
    const own = holds ? await this.#rulesFor('always', user).find(rule) : undefined;
    return own ?? (await this.rules.find(rule));
  }

  #rulesFor(scope: 'once' | 'session' | 'always', user: string): PermissionRuleStore {
    return scope === 'always' ? new PermissionRuleStore(this.#parts.documents, { user }) : this.rules;
  }

  async #cancel(which: (info: PermissionInfo, waiting: PendingPermission) => boolean, reason: string): Promise<void> {
    const all = [...this.#waiting.values()].map(({ waiting }) => waiting).filter((one) => which(one.info, one));
    for (const waiting of all) waiting.cancel(reason);
    await Promise.all(all.map(({ written }) => written));
  }

  get #recordsAndLog(): RecordsAndLog {
    return { records: this.#records, writer: this.#parts.writer };
  }
}

interface AskOptions {
  readonly signal: AbortSignal;
  /** 0 means no limit. */
  readonly timeoutMs: number;
  /** Whether it waits only while a responder is connected. */
  readonly needsResponder?: boolean;
  readonly onAsked?: PermissionAsker['onAsked'];
}

/** Throws if the rule would not allow the request that it is created from. */
function patternForRule(given: string | undefined, subject: RuleTarget | undefined): string {
  const pattern = given ?? (subject && exactPattern(subject.text));
  if (!subject || pattern === undefined) {
    throw new CellaError('INVALID_REQUEST', 'No rule can match this request. Allow it once.');
  }
  checkPattern(pattern);
  if (matches(pattern, subject)) return pattern;
  const message = `The pattern ${JSON.stringify(pattern.slice(0, 200))} does not match the request.`;
  throw new CellaError('INVALID_REQUEST', message, { advice: 'See docs/permissions.md for the wildcards.' });
}

/** A request that is still pending is left to the next server. */
function alreadyResolved({ id, state, resolution }: PermissionInfo): CellaError {
  if (state === 'pending') {
    const advice = 'Decide it when the server is back.';
    return new CellaError('SERVER_STOPPING', `The server is shutting down; the permission ${id} stays pending.`, {
      advice,
    });
  }
  const { outcome = 'cancelled', by, at, reason, scope } = resolution ?? {};
  const who = by === undefined ? '' : ` by ${by}`;
  const message = `The permission ${id} is already resolved${who}: ${outcome}.`;
  return new CellaError('ALREADY_RESOLVED', message, {
    details: { id, outcome, by, at, reason, scope },
  });
}

function toResult({ id, resolution }: PermissionInfo): AskedResolution {
  if (resolution) return { id, ...resolution };
  // Left to the next server; no asker waits for it here.
  return { id, outcome: 'cancelled', reason: 'the server is shutting down', at: Date.now() };
}

/** Denied without asking. */
function denied(reason: string): AskedResolution {
  return { outcome: 'denied', reason, at: Date.now() };
}

export interface Responder {
  readonly id: number;
  readonly leave: () => void;
}

interface OpenQuestion {
  /** The responders who have not abstained. */
  readonly waitingFor: Set<number>;
  readonly onNobody: () => void;
}

class Responders {
  readonly #connected = new Set<number>();
  readonly #pending = new Map<string, OpenQuestion>();
  #count = 0;

  get isEmpty(): boolean {
    return this.#connected.size === 0;
  }

  /** The new responder can also answer what is already pending. */
  join(): Responder {
    const id = ++this.#count;
    this.#connected.add(id);
    for (const { waitingFor } of this.#pending.values()) waitingFor.add(id);
    const leave = () => {
      this.#connected.delete(id);
      for (const question of [...this.#pending.values()]) withdraw(question, id);
    };
    return { id, leave };
  }

  /** `onNobody` is called when all responders have left or abstained. */
  ask(permission: string, onNobody: () => void): Disposable {
    this.#pending.set(permission, { waitingFor: new Set(this.#connected), onNobody });
    return { [Symbol.dispose]: () => void this.#pending.delete(permission) };
  }

  /** This responder leaves the answer to the others. */
  abstain(permission: string, responder: number): void {
    const question = this.#pending.get(permission);
    if (question) withdraw(question, responder);
  }
}

function withdraw({ waitingFor, onNobody }: OpenQuestion, responder: number): void {
  if (waitingFor.delete(responder) && waitingFor.size === 0) onNobody();
}
