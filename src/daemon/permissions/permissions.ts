/**
 * The permissions of one session. A request is in storage before anybody sees it, and its decision is in storage and in
 * the log before anybody acts on it. Only the server that has the session decides; a server that ended while something
 * waited has left it to the next one, which tells that nobody waits for it any more.
 */

import type { Approval, ApprovalRequest } from '../../namespaces/tools/approval.ts';
import { PermissionDecision, type PermissionInfo, type PermissionRule } from '../../protocol/http/permission-routes.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { EventWriter } from '../sessions/event-writer.ts';
import { Attendants } from './attendants.ts';
import { type Case, caseOfAgent, caseOfTool, infoOf } from './case.ts';
import type { Decided, PermissionWish, SessionPermissions } from './contract.ts';
import { alreadyResolved, decidedOf, patternOf } from './decision.ts';
import { type PermissionRecord, PermissionRecords } from './records.ts';
import { recoverRecords } from './recover.ts';
import { Rules } from './rules.ts';
import { isTooLong } from './shown.ts';
import { defined, requestedEvent, resolvedEvent } from './told.ts';
import { type Limits, Waiting } from './waiting.ts';

export interface PermissionsParts {
  readonly sessionId: string;
  /** For what is written on the session's behalf. */
  readonly documents: DocumentStore;
  readonly writer: Pick<EventWriter, 'write'>;
  /** The execution that runs, and who asked for it. */
  readonly running: () => { readonly id: string; readonly by?: string | undefined } | undefined;
  /** How long an agent's request waits, and that of a kernel's tool; 0 means any time. */
  readonly timeouts: () => { readonly agentMs: number; readonly toolMs: number };
}

const NOBODY = 'nobody is there to ask';
const TOO_LONG = 'what it would do is too long to be shown to anybody';
/** Of one session, at a time. */
const MOST_WAITING = 100;

export class Permissions implements SessionPermissions {
  readonly #parts: PermissionsParts;
  readonly #records: PermissionRecords;
  readonly #rules: Rules;
  readonly #attendants = new Attendants();
  readonly #waiting = new Map<string, { readonly waiting: Waiting; readonly rule: Case['rule'] }>();
  /** Decided while nobody was there to take it, by what its asker would ask again with. */
  readonly #untaken = new Map<string, PermissionRecord>();

  constructor(parts: PermissionsParts) {
    this.#parts = parts;
    this.#records = new PermissionRecords(parts.documents, parts.sessionId);
    this.#rules = new Rules(parts.documents, { session: parts.sessionId });
  }

  async request(wish: PermissionWish): Promise<Decided> {
    const { signal, onAsked, timeoutMs = this.#parts.timeouts().agentMs } = wish;
    const { request, ...wanted } = caseOfAgent(wish);
    const known = request === undefined ? undefined : await this.#again(request);
    return known ?? (await this.#ask(wanted, { signal, timeoutMs }, { request, onAsked }));
  }

  /** A tool that a kernel's code calls: with nobody there it is refused, so that the code does not hang. */
  async ask(call: ApprovalRequest): Promise<Approval> {
    const limits = { signal: call.signal, timeoutMs: this.#parts.timeouts().toolMs };
    const { outcome, reason } = await this.#ask(caseOfTool(call, this.#parts.running()), limits, { attended: true });
    return { allowed: outcome === 'allowed', reason };
  }

  attend() {
    return this.#attendants.attend();
  }

  abstain(id: string, attendant: number): void {
    this.#attendants.abstain(id, attendant);
  }

  async list(state?: PermissionInfo['state']): Promise<PermissionInfo[]> {
    const all = (await this.#records.all()).map(({ info }) => info);
    return state === undefined ? all : all.filter((info) => info.state === state);
  }

  async get(id: string): Promise<PermissionInfo> {
    return (await this.#records.get(id)).info;
  }

  async decide(by: string, id: string, decision: PermissionDecision): Promise<PermissionInfo> {
    const given = PermissionDecision.parse(decision);
    const found = this.#waiting.get(id);
    if (!found) throw alreadyResolved(await this.get(id));
    const { waiting, rule } = found;
    if (given.decision === 'deny') {
      const { reason = 'the person who was asked did not allow it' } = given;
      if (waiting.settle({ outcome: 'denied', reason, by })) return await waiting.written;
      throw alreadyResolved(await waiting.written);
    }
    const { scope, text } = given;
    const pattern = scope === 'once' ? undefined : patternOf(given.pattern, rule?.subject);
    const kept = Promise.withResolvers<void>();
    if (!waiting.settle({ outcome: 'allowed', scope, by, ...defined({ text }) }, kept.promise)) {
      throw alreadyResolved(await waiting.written);
    }
    // The rule holds when it is told that there is one.
    const keep = async () => {
      if (rule && pattern !== undefined) await this.#rulesFor(scope, by).add({ tool: rule.tool, pattern }, by);
    };
    await keep().then(kept.resolve, kept.reject);
    return await waiting.written;
  }

  async cancelOf(turn: string, reason = 'the turn was stopped'): Promise<void> {
    await this.#cancel((info) => info.turn === turn, reason);
  }

  rules(): Promise<PermissionRule[]> {
    return this.#rules.list();
  }

  deleteRule(id: string): Promise<void> {
    return this.#rules.delete(id);
  }

  /** Before anybody reads along: what the server before this one has left undecided, and untold. */
  async recover(): Promise<void> {
    for (const record of await recoverRecords(this.#records, this.#parts.writer)) {
      if (record.request !== undefined) this.#untaken.set(record.request, record);
    }
  }

  /** Nobody can be told of a decision any more. */
  async close(): Promise<void> {
    await this.#cancel(() => true, 'the server is ending').catch(() => {}); // the next one does it
  }

  async #ask(wanted: Case, limits: Limits, { request, attended = false, onAsked }: Asking): Promise<Decided> {
    const { rule } = wanted;
    const info = infoOf(wanted, this.#parts.sessionId, limits.timeoutMs);
    const allowing = rule && (await this.#allowing(rule, info.user));
    if (allowing) return await this.#tellAllowed(info, allowing);
    if (attended && this.#attendants.nobody) return { outcome: 'denied', reason: NOBODY };
    if (isTooLong(info)) return { outcome: 'denied', reason: TOO_LONG };
    if (this.#waiting.size >= MOST_WAITING) return { outcome: 'denied', reason: 'too many requests wait already' };
    const waiting = new Waiting(info, request);
    this.#waiting.set(info.id, { waiting, rule });
    using _limits = waiting.limit(limits);
    using _asked = attended ? this.#attendants.ask(info.id, () => nobody(waiting)) : undefined;
    try {
      return await this.#carryOut(waiting, onAsked);
    } catch (error) {
      waiting.fail(error);
      throw error;
    } finally {
      this.#waiting.delete(info.id);
    }
  }

  async #carryOut(waiting: Waiting, onAsked: Asking['onAsked']): Promise<Decided> {
    const { writer } = this.#parts;
    const { info } = waiting;
    const fields = defined({ request: waiting.request });
    await this.#records.put({ info, ...fields, logged: false, delivered: false });
    await writer.write(requestedEvent(info));
    onAsked?.(info.id);
    const resolution = await waiting.decided;
    const over: PermissionInfo = { ...info, state: 'resolved', resolution };
    await this.#records.put({ info: over, ...fields, logged: false, delivered: false });
    const event = resolvedEvent(over);
    if (event) await writer.write(event);
    await this.#records.put({ info: over, ...fields, logged: true, delivered: true });
    waiting.finish(over);
    void this.#records.prune().catch(() => {}); // after the next one
    return decidedOf(over);
  }

  /** Nobody has to be asked: the log tells which rule it was, and that is all that is kept. */
  async #tellAllowed(info: PermissionInfo, { id: by, session }: PermissionRule): Promise<Decided> {
    const scope = session === undefined ? 'always' : 'session';
    const over: PermissionInfo = { ...info, resolution: { outcome: 'allowed', by, scope, at: Date.now() } };
    if (isTooLong(info)) return { outcome: 'denied', reason: TOO_LONG };
    for (const event of [requestedEvent(over), resolvedEvent(over)]) if (event) await this.#parts.writer.write(event);
    return decidedOf(over);
  }

  /** Whoever asks again waits for the same, or takes what was decided meanwhile: once. */
  async #again(request: string): Promise<Decided | undefined> {
    const same = [...this.#waiting.values()].find(({ waiting }) => waiting.request === request);
    if (same) return decidedOf(await same.waiting.written);
    const record = this.#untaken.get(request);
    if (!record) return undefined;
    this.#untaken.delete(request);
    await this.#records.put({ ...record, delivered: true });
    return decidedOf(record.info);
  }

  async #allowing({ tool, subject }: NonNullable<Case['rule']>, user: string | undefined) {
    const own = user === undefined ? undefined : await this.#rulesFor('always', user).find(tool, subject);
    return own ?? (await this.#rules.find(tool, subject));
  }

  #rulesFor(scope: 'once' | 'session' | 'always', user: string): Rules {
    return scope === 'always' ? new Rules(this.#parts.documents, { user }) : this.#rules;
  }

  async #cancel(which: (info: PermissionInfo) => boolean, reason: string): Promise<void> {
    const all = [...this.#waiting.values()].map(({ waiting }) => waiting).filter(({ info }) => which(info));
    for (const waiting of all) waiting.settle({ outcome: 'cancelled', reason });
    await Promise.all(all.map(({ written }) => written));
  }
}

interface Asking {
  readonly request?: string | undefined;
  /** Whether it waits only while somebody is there. */
  readonly attended?: boolean;
  readonly onAsked?: PermissionWish['onAsked'];
}

function nobody(waiting: Waiting): void {
  waiting.settle({ outcome: 'cancelled', reason: NOBODY });
}
