/** Permissions that an agent waits for: asked of the daemon, decided in its reply or later. */

import type { z } from 'zod';
import type { PermissionAnswer, PermissionAsk } from '../../agents/contract.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RpcPeer } from '../../protocol/rpc-peer.ts';
import { type PermissionResolved, RequestPermission } from '../../protocol/runner-methods.ts';
import type { TaskClaim } from './reports.ts';

type Resolution = z.output<typeof PermissionResolved.params>;
type Decision = Pick<Resolution, 'outcome' | 'reason' | 'text'>;

/** Decisions that overtook the reply that names their request; no honest daemon has many. */
const MOST_EARLY = 100;
const MOST_SUMMARY = 10_000;

export class Permissions {
  readonly #peer: RpcPeer;
  readonly #claim: TaskClaim;
  readonly #waiting = new Map<string, (decision: Decision) => void>();
  readonly #early = new Map<string, Decision>();
  #asking = 0;

  constructor(peer: RpcPeer, claim: TaskClaim) {
    this.#peer = peer;
    this.#claim = claim;
  }

  /** Never rejects: what cannot be asked is not allowed. */
  async ask(ask: PermissionAsk, signal: AbortSignal): Promise<PermissionAnswer> {
    this.#asking += 1;
    try {
      return toAnswer(await this.#decide(ask, signal));
    } catch (error) {
      if (signal.aborted) return { allowed: false, reason: 'The turn is being stopped.' };
      const why = error instanceof CellaError ? error.message : 'it could not be asked for';
      return { allowed: false, reason: `Nobody could be asked for permission: ${why}` };
    } finally {
      this.#asking -= 1;
    }
  }

  /** False where nothing waits for it. */
  resolve({ request_id, outcome, reason, text }: Resolution): boolean {
    const decision = { outcome, reason, text };
    const waiting = this.#waiting.get(request_id);
    if (waiting) {
      waiting(decision);
      return true;
    }
    if (this.#asking === 0 || this.#early.size >= MOST_EARLY) return false;
    this.#early.set(request_id, decision);
    return true;
  }

  async #decide(ask: PermissionAsk, signal: AbortSignal): Promise<Decision> {
    const { request_id, decision } = await this.#peer.call(
      RequestPermission,
      { ...this.#claim, ...mutable(ask), summary: ask.summary.slice(0, MOST_SUMMARY) },
      { signal },
    );
    const known = decision ?? this.#early.get(request_id);
    this.#early.delete(request_id);
    return known ?? (await this.#wait(request_id, signal));
  }

  async #wait(id: string, signal: AbortSignal): Promise<Decision> {
    const decided = Promise.withResolvers<Decision>();
    const stop = () => decided.resolve({ outcome: 'cancelled', reason: 'The turn is being stopped.' });
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    this.#waiting.set(id, decided.resolve);
    try {
      return await decided.promise;
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener('abort', stop);
    }
  }
}

function toAnswer({ outcome, reason, text }: Decision): PermissionAnswer {
  if (outcome === 'allowed') return { allowed: true, reason, text };
  const why = outcome === 'timed_out' ? 'Nobody answered in time.' : 'It was not allowed.';
  return { allowed: false, reason: reason ?? why, text };
}

function mutable({ question, ...ask }: PermissionAsk) {
  if (!question) return ask;
  const { text, options } = question;
  return { ...ask, question: { text, ...(options && { options: [...options] }) } };
}
