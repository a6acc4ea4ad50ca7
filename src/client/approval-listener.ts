/** Asks the caller to approve tools while a session is open. The first answer from any client decides. */

import { z } from 'zod';
import type { Approval, ApprovalRequest, PermissionDecision } from '../protocol/permission.ts';
import { valueFromWire } from '../protocol/py-values.ts';
import type { StreamItem } from '../protocol/session-events.ts';
import { type ApiClient, hasCode } from './api-client.ts';
import { subscribe } from './subscribe.ts';

interface ApprovalListenerOptions {
  readonly api: ApiClient;
  readonly sessionId: string;
  /** The sequence number of the last known event. */
  readonly after: number;
  readonly resumeMs: number;
  /** Aborted when this client closes the session. */
  readonly closing: AbortSignal;
  readonly approve: ApprovalResponder;
}

type PermissionRequestedEvent = Extract<StreamItem, { type: 'permission_requested' }>;

/** Undefined leaves the decision to other clients. If all of them abstain, the tool is refused. */
export type ApprovalResponder = (request: ApprovalRequest) => Promise<Approval | undefined>;

const Hello = z.object({ type: z.literal('hello'), responder: z.int() });

/** Resolves when the server knows of this responder. Listens until this client closes the session. */
export async function listenForApprovals(options: ApprovalListenerOptions): Promise<void> {
  const known = Promise.withResolvers<void>();
  new ApprovalListener(options, known.resolve).watch().then(known.resolve, known.reject);
  await known.promise;
}

class ApprovalListener {
  readonly #options: ApprovalListenerOptions;
  readonly #onKnown: () => void;
  /** The server's id for this client, which changes with each reconnect. */
  #responder = 0;

  constructor(options: ApprovalListenerOptions, onKnown: () => void) {
    this.#options = options;
    this.#onKnown = onKnown;
  }

  async watch(): Promise<void> {
    const { api, sessionId, after, resumeMs, closing: signal } = this.#options;
    const asked = new Map<string, AbortController>();
    const onReached = (frame: unknown) => {
      const hello = Hello.safeParse(frame);
      if (!hello.success) return;
      this.#responder = hello.data.responder;
      this.#onKnown();
    };
    try {
      for await (const item of subscribe(api, sessionId, {
        after,
        resumeMs,
        signal,
        permissions: 'answer',
        onReached,
      })) {
        // Requests of an agent's turn are answered with `decidePermission`, not here.
        if (item.type === 'permission_requested' && item.turn === undefined) {
          // After a server ended, its pending request comes again when other code asks for the same.
          if (asked.has(item.id)) continue;
          const over = new AbortController();
          asked.set(item.id, over);
          void this.#answer(item, over.signal).then(() => asked.delete(item.id));
        } else if (item.type === 'permission_resolved') {
          asked.get(item.id)?.abort();
          asked.delete(item.id);
        }
      }
    } finally {
      for (const over of asked.values()) over.abort();
    }
  }

  async #answer({ id, tool, recipe, input, summary }: PermissionRequestedEvent, signal: AbortSignal): Promise<void> {
    const { api, sessionId, approve } = this.#options;
    const reply = (body: Reply) => api.call('decidePermission', { params: { id: sessionId, permission: id }, body });
    try {
      const values = Object.fromEntries(
        Object.entries(input ?? {}).map(([name, value]) => [name, valueFromWire(value)]),
      );
      const answer = await approve({ tool, recipe, arguments: values, summary, signal });
      if (!signal.aborted) await reply(answer === undefined ? abstention(this.#responder) : replyOf(answer));
    } catch (error) {
      // Another client answered first.
      if (hasCode(error, 'ALREADY_RESOLVED')) return;
      const reason = `the answer failed: ${error}`.slice(0, 500);
      await reply({ decision: 'deny', reason }).catch(() => {}); // already answered, or the server is gone
    }
  }
}

type Reply = PermissionDecision | ReturnType<typeof abstention>;

function abstention(responder: number) {
  return { decision: 'abstain', responder } as const;
}

function replyOf(answer: Approval): Reply {
  const { allowed, reason } = typeof answer === 'boolean' ? { allowed: answer, reason: undefined } : answer;
  if (allowed) return { decision: 'allow', scope: 'once' };
  return { decision: 'deny', reason: reason?.slice(0, 500) };
}
