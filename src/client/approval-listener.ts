/** Asks the caller about tools that require approval while a session is open. The first answer decides. */

import { z } from 'zod';
import type { PermissionDecision } from '../protocol/permission.ts';
import { valueFromWire } from '../protocol/py-values.ts';
import type { StreamItem } from '../protocol/session-events.ts';
import type { Approval, ApprovalRequest } from '../session/api.ts';
import { type ApiClient, hasCode } from './api-client.ts';
import { subscribe } from './subscribe.ts';

export interface ApprovalListenerOptions {
  readonly link: ApiClient;
  readonly sessionId: string;
  /** The number of the last event that there was. */
  readonly after: number;
  readonly resumeMs: number;
  /** Aborted where the session is closed here. */
  readonly closing: AbortSignal;
  readonly approve: ApprovalResponder;
}

type PermissionRequestedEvent = Extract<StreamItem, { type: 'permission_requested' }>;

/** Undefined leaves the answer to others. Where everybody does, the tool is refused. */
export type ApprovalResponder = (request: ApprovalRequest) => Promise<Approval | undefined>;

const Hello = z.object({ type: z.literal('hello'), responder: z.int() });

/** Resolves when the server knows that somebody is there; it goes on until the session is closed here. */
export async function listenForApprovals(options: ApprovalListenerOptions): Promise<void> {
  const known = Promise.withResolvers<void>();
  new ApprovalListener(options, known.resolve).watch().then(known.resolve, known.reject);
  await known.promise;
}

class ApprovalListener {
  readonly #options: ApprovalListenerOptions;
  readonly #onKnown: () => void;
  /** What the server calls this client; another after each time that the connection broke. */
  #responder = 0;

  constructor(options: ApprovalListenerOptions, onKnown: () => void) {
    this.#options = options;
    this.#onKnown = onKnown;
  }

  async watch(): Promise<void> {
    const { link, sessionId, after, resumeMs, closing: signal } = this.#options;
    const asked = new Map<string, AbortController>();
    const onReached = (frame: unknown) => {
      const hello = Hello.safeParse(frame);
      if (!hello.success) return;
      this.#responder = hello.data.responder;
      this.#onKnown();
    };
    try {
      for await (const item of subscribe(link, sessionId, {
        after,
        resumeMs,
        signal,
        permissions: 'answer',
        onReached,
      })) {
        // What an agent asks for is decided by `decidePermission`.
        if (item.type === 'permission_requested' && item.turn === undefined) {
          // Told again where other code asks for what was left by a server that ended.
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
    const { link, sessionId, approve } = this.#options;
    const reply = (body: Reply) => link.call('decidePermission', { params: { id: sessionId, permission: id }, body });
    try {
      const values = Object.fromEntries(
        Object.entries(input ?? {}).map(([name, value]) => [name, valueFromWire(value)]),
      );
      const answer = await approve({ tool, recipe, arguments: values, summary, signal });
      if (!signal.aborted) await reply(answer === undefined ? abstention(this.#responder) : replyOf(answer));
    } catch (error) {
      // Somebody else was faster.
      if (hasCode(error, 'ALREADY_RESOLVED')) return;
      const reason = `the answer failed: ${error}`.slice(0, 500);
      await reply({ decision: 'deny', reason }).catch(() => {}); // answered meanwhile, or nobody is there any more
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
