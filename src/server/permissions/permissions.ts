/**
 * The permissions of one session. A request is in storage before anybody sees it, and its decision is in storage and in
 * the log before anybody acts on it. Only the server that has the session decides; what waits when a server ends is left
 * to the next one, where it can be decided, and is taken up by whoever asks for the very same again.
 */

import type { Approval, ApprovalRequest } from '../../namespaces/tools/tool-approval.ts';
import { PermissionDecision, type PermissionInfo, type PermissionRule } from '../../protocol/api/agent-routes.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { SessionLog } from '../events/session-log.ts';
import { Attendants } from './attendants.ts';
import { type Case, caseOfAgent, caseOfTool, infoOf, ruleOf } from './case.ts';
import type { Decided, PermissionWish, SessionPermissions } from './contract.ts';
import { type Books, conclude, tellAsked } from './course.ts';
import { alreadyResolved, decidedOf, patternOf } from './decision.ts';
import { PermissionRecords, requestedEvent, resolvedEvent, takenText } from './records.ts';
import { recoverRecords } from './recover.ts';
import { Rules } from './rules.ts';
import { isTooLong } from './shown.ts';
import { defined } from './told.ts';
import { Untaken } from './untaken.ts';
import { Waiting } from './waiting.ts';

export interface PermissionsParts {
  readonly sessionId: string;
  /** The id of the user whose session it is. */
  readonly ownerId: string;
  /** For what is written on the session's behalf. */
  readonly documents: DocumentStore;
  readonly writer: Pick<SessionLog, 'write'>;
  /** The execution that runs, and who asked for it. */
  readonly running: () => { readonly id: string; readonly by?: string | undefined } | undefined;
  /** How long an agent's request waits, and that of a kernel's tool; 0 means any time. */
  readonly timeouts: () => { readonly agentMs: number; readonly toolMs: number };
}

const NOBODY = 'nobody is there to ask';
const TOO_LONG = 'what it would do is too long to be shown to anybody';
const TOO_MANY = 'too many requests wait already';
/** Of one session, at a time. */
const MOST_WAITING = 100;

export class Permissions implements SessionPermissions {
  readonly #parts: PermissionsParts;
  readonly #records: PermissionRecords;
  readonly #rules: Rules;
  readonly #attendants = new Attendants();
  readonly #waiting = new Map<string, { readonly waiting: Waiting; readonly rule: Case['rule'] }>();
  readonly #untaken: Untaken;
  /** Whether the server is ending. */
  #isLeaving = false;

  constructor(parts: PermissionsParts) {
    this.#parts = parts;
    this.#records = new PermissionRecords(parts.documents, parts.sessionId);
    this.#rules = new Rules(parts.documents, { session: parts.sessionId });
    this.#untaken = new Untaken(
      this.#records,
      ({ turn }) => parts.timeouts()[turn === undefined ? 'toolMs' : 'agentMs'],
    );
  }

  async request(wish: PermissionWish): Promise<Decided> {
    const { signal, onAsked, timeoutMs = this.#parts.timeouts().agentMs } = wish;
    return await this.#ask(caseOfAgent(wish), { signal, timeoutMs, onAsked });
  }

  /** A tool that a kernel's code calls: with nobody there it is refused, so that the code does not hang. */
  async ask(call: ApprovalRequest): Promise<Approval> {
    const asking = { signal: call.signal, timeoutMs: this.#parts.timeouts().toolMs, attended: true };
    const { outcome, reason } = await this.#ask(caseOfTool(call, this.#parts.running()), asking);
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
      if (rule && pattern !== undefined)
        await this.#rulesFor(scope, by).add({ tool: rule.tool, pattern, definition: rule.definition }, by);
    };
    await keep().then(kept.resolve, kept.reject);
    return await waiting.written;
  }

  async cancelOf(turn: string, reason = 'the turn was stopped'): Promise<void> {
    await this.#cancel((info) => info.turn === turn, reason);
  }

  async cancelLeft(turn?: string): Promise<void> {
    const isMeant = (info: PermissionInfo) => info.turn !== undefined && (turn === undefined || info.turn === turn);
    await this.#untaken.drop(isMeant);
    await this.#cancel((info, { isLeft }) => isLeft && isMeant(info), 'the turn was stopped');
  }

  rules(): Promise<PermissionRule[]> {
    return this.#rules.list();
  }

  deleteRule(id: string): Promise<void> {
    return this.#rules.delete(id);
  }

  /** Before anybody reads along: what the server before this one has left undecided, untold or untaken. */
  async recover(): Promise<void> {
    const { pending, untaken } = await recoverRecords(this.#records, this.#parts.writer);
    for (const record of untaken) this.#untaken.add(record);
    const all = pending.map((record) => new Waiting(record, { isLeft: true }));
    for (const waiting of all) void this.#follow(waiting, ruleOf(waiting.info));
    // What is over by now is seen as over.
    const late = all.filter(({ info }) => (info.expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now());
    await Promise.all(late.map(({ written }) => written));
  }

  /** The server ends: from here on, what would be cancelled is left to the next one. */
  leave(): void {
    this.#isLeaving = true;
    for (const { waiting } of this.#waiting.values()) waiting.outlive();
  }

  /** Nobody can be told of a decision any more. */
  async close(): Promise<void> {
    await this.#cancel(() => true, 'its session has ended').catch(() => {}); // the next server finds it
  }

  /** Between what was known before and what waits there is no pause, in which one could become the other. */
  async #ask(wanted: Case, { signal, timeoutMs, attended = false, onAsked }: Asking): Promise<Decided> {
    const { rule, request } = wanted;
    const info = infoOf(wanted, this.#parts.sessionId, timeoutMs);
    const allowing = rule && (await this.#allowing(rule, info));
    const taken = this.#untaken.take(request);
    if (taken) return await this.#tellTaken(await taken, info);
    if (allowing) return await this.#tellAllowed(info, allowing);
    if (attended && this.#attendants.nobody) return { outcome: 'denied', reason: NOBODY };
    const left = [...this.#waiting.values()].find(({ waiting }) => waiting.isLeft && waiting.request === request);
    if (!left && isTooLong(info)) return { outcome: 'denied', reason: TOO_LONG };
    if (!left && this.#waiting.size >= MOST_WAITING) return { outcome: 'denied', reason: TOO_MANY };
    const waiting = left?.waiting ?? new Waiting({ info, request });
    if (left) waiting.adopt(defined({ turn: info.turn, item: info.item, execution: info.execution }));
    else void this.#follow(waiting, rule);
    using _until = waiting.until(signal);
    using _asked = attended ? this.#attendants.ask(waiting.info.id, () => waiting.cancel(NOBODY)) : undefined;
    await waiting.tell(() => tellAsked(this.#books, waiting), { isAdopted: left !== undefined });
    onAsked?.(waiting.info.id);
    return decidedOf(await waiting.written);
  }

  /** To its end, whoever asks for it meanwhile. What goes wrong is told to them, and to whoever decides. */
  async #follow(waiting: Waiting, rule: Case['rule']): Promise<void> {
    const { id } = waiting.info;
    this.#waiting.set(id, { waiting, rule });
    if (this.#isLeaving) waiting.outlive();
    using _expiry = waiting.expire();
    try {
      await conclude(this.#books, waiting, (record) => {
        this.#untaken.add(record);
        this.#waiting.delete(id);
      });
      void this.#records.prune().catch(() => {}); // after the next one
    } catch (error) {
      waiting.fail(error);
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** Nobody has to be asked: the log tells which rule it was, and that is all that is kept. */
  async #tellAllowed(info: PermissionInfo, { id: by, session }: PermissionRule): Promise<Decided> {
    const scope = session === undefined ? 'always' : 'session';
    const over: PermissionInfo = { ...info, resolution: { outcome: 'allowed', by, scope, at: Date.now() } };
    if (isTooLong(info)) return { outcome: 'denied', reason: TOO_LONG };
    for (const event of [requestedEvent(over), resolvedEvent(over)]) if (event) await this.#parts.writer.write(event);
    return decidedOf(over);
  }

  /** Nobody has to be asked again; the turn that takes the decision tells whose it was. */
  async #tellTaken(decided: PermissionInfo, { turn }: PermissionInfo): Promise<Decided> {
    if (turn !== undefined) await this.#parts.writer.write({ type: 'agent_notice', turn, text: takenText(decided) });
    return decidedOf(decided);
  }

  /** In a session of somebody else, code that its owner has left there runs along with that of whoever runs a cell. */
  async #allowing(rule: NonNullable<Case['rule']>, { user, turn }: PermissionInfo) {
    const holds = user !== undefined && (turn !== undefined || user === this.#parts.ownerId);
    const own = holds ? await this.#rulesFor('always', user).find(rule) : undefined;
    return own ?? (await this.#rules.find(rule));
  }

  #rulesFor(scope: 'once' | 'session' | 'always', user: string): Rules {
    return scope === 'always' ? new Rules(this.#parts.documents, { user }) : this.#rules;
  }

  async #cancel(which: (info: PermissionInfo, waiting: Waiting) => boolean, reason: string): Promise<void> {
    const all = [...this.#waiting.values()].map(({ waiting }) => waiting).filter((one) => which(one.info, one));
    for (const waiting of all) waiting.cancel(reason);
    await Promise.all(all.map(({ written }) => written));
  }

  get #books(): Books {
    return { records: this.#records, writer: this.#parts.writer };
  }
}

interface Asking {
  readonly signal: AbortSignal;
  /** 0 means any time. */
  readonly timeoutMs: number;
  /** Whether it waits only while somebody is there. */
  readonly attended?: boolean;
  readonly onAsked?: PermissionWish['onAsked'];
}
