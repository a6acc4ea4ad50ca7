/** Tools that wait for a person's leave: whoever attends the session is asked, the first answer wins, and the log tells it. */

import type { Approval, ApprovalRequest } from '../../namespaces/tools/approval.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/http/events.ts';
import { toWire } from '../../protocol/http/values.ts';
import type { EventWriter } from './event-writer.ts';
import { newApprovalId } from './ids.ts';

export interface ApprovalAnswer {
  readonly allowed: boolean;
  readonly reason?: string | undefined;
  /** The id of the user who gives it. */
  readonly by?: string | undefined;
}

export interface ApprovalsParts {
  readonly writer: Pick<EventWriter, 'write'>;
  /** The execution that runs. */
  readonly running: () => string | undefined;
  /** How long a person has; 0 means any time. */
  readonly timeoutMs: () => number;
}

export interface Attendant {
  readonly id: number;
  readonly leave: () => void;
}

type Answered = Extract<SessionEventBody, { type: 'approval_answered' }>;
type Outcome = Pick<Answered, 'outcome' | 'reason' | 'by'>;

interface Pending {
  /** Those who may still answer. */
  readonly asked: Set<number>;
  readonly settle: (outcome: Outcome) => void;
  /** Resolves when the answer is in the log. */
  readonly written: Promise<void>;
}

const NOBODY = 'nobody is there to ask';
/** Nobody reads more than this before they say yes. */
const MOST_CHARACTERS = 64 * 1024;

export class Approvals {
  readonly #parts: ApprovalsParts;
  readonly #pending = new Map<string, Pending>();
  readonly #attendants = new Set<number>();
  #count = 0;

  constructor(parts: ApprovalsParts) {
    this.#parts = parts;
  }

  /** Somebody is there who answers. What waits is for them, too. */
  attend(): Attendant {
    const id = ++this.#count;
    this.#attendants.add(id);
    for (const { asked } of this.#pending.values()) asked.add(id);
    const leave = () => {
      this.#attendants.delete(id);
      for (const pending of this.#pending.values()) withdraw(pending, id);
    };
    return { id, leave };
  }

  /** This one leaves the answer to the others. */
  abstain(id: string, attendant: number): void {
    const pending = this.#pending.get(id);
    if (pending) withdraw(pending, attendant);
  }

  /** What is not allowed, for whatever reason, is refused; an answer counts when it is in the log. */
  async ask(request: ApprovalRequest): Promise<Approval> {
    if (this.#attendants.size === 0) return { allowed: false, reason: NOBODY };
    const event = this.#eventOf(request);
    if (JSON.stringify(event).length > MOST_CHARACTERS) {
      return { allowed: false, reason: 'what it would do is too long to be shown to anybody' };
    }
    const { id, execution } = event;
    const [decided, written] = [Promise.withResolvers<Outcome>(), Promise.withResolvers<void>()];
    written.promise.catch(() => {}); // told to whoever asks, and to whoever answers
    const settle = (outcome: Outcome) => {
      // Before anything is waited for: a second answer finds nothing.
      if (this.#pending.delete(id)) decided.resolve(outcome);
    };
    this.#pending.set(id, { asked: new Set(this.#attendants), settle, written: written.promise });
    using _limits = this.#limit(request.signal, settle);
    try {
      await this.#parts.writer.write(event);
      const outcome = await decided.promise;
      const owner = execution === undefined ? {} : { execution };
      await this.#parts.writer.write({ type: 'approval_answered', id, ...owner, ...outcome });
      written.resolve();
      return { allowed: outcome.outcome === 'allowed', reason: outcome.reason };
    } catch (error) {
      written.reject(error);
      throw error;
    } finally {
      this.#pending.delete(id);
    }
  }

  async answer(id: string, { allowed, reason, by }: ApprovalAnswer): Promise<void> {
    const pending = this.#pending.get(id);
    if (!pending) throw new CellaError('INPUT_NOT_PENDING', `No tool waits for an approval with the id ${id}.`);
    pending.settle({
      outcome: allowed ? 'allowed' : 'refused',
      ...(reason === undefined ? {} : { reason }),
      ...(by === undefined ? {} : { by }),
    });
    await pending.written;
  }

  #eventOf({ tool, recipe, arguments: given, summary }: ApprovalRequest) {
    const execution = this.#parts.running();
    return {
      type: 'approval_request',
      id: newApprovalId(),
      ...(execution === undefined ? {} : { execution }),
      tool,
      ...(recipe === undefined ? {} : { recipe }),
      arguments: Object.fromEntries(Object.entries(given).map(([name, value]) => [name, toWire(value)])),
      summary,
    } as const;
  }

  /** It is given up where nobody answers in time, or nobody waits any more. */
  #limit(signal: AbortSignal, settle: (outcome: Outcome) => void): Disposable {
    const ms = this.#parts.timeoutMs();
    const late = () => settle({ outcome: 'unanswered', reason: `nobody answered within ${ms / 1000} s` });
    const timer = ms === 0 ? undefined : setTimeout(late, ms);
    const gone = () => settle({ outcome: 'unanswered', reason: 'the code no longer waits for it' });
    signal.addEventListener('abort', gone, { once: true });
    if (signal.aborted) gone();
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', gone);
      },
    };
  }
}

function withdraw({ asked, settle }: Pending, attendant: number): void {
  if (asked.delete(attendant) && asked.size === 0) settle({ outcome: 'unanswered', reason: NOBODY });
}
