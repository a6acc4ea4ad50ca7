/** The events of a session as an answer that goes on, until the client has gone, is too slow, or may no longer read. */

import { CellaError } from '../../protocol/errors.ts';
import type { FeedItem } from '../../protocol/session-events.ts';
import type { Principal } from '../access/authorization.ts';
import type { ServerSession } from '../sessions/session-types.ts';
import { stopping } from '../stopping.ts';
import { failureOf, toCellaError } from './failure.ts';
import type { Recheck } from './router.ts';
import type { Service } from './service.ts';
import { type Item, type StreamForm, streamResponse } from './streams.ts';

export interface FeedOptions {
  readonly form: Exclude<StreamForm, 'json'>;
  readonly principal: Principal;
  /** Where that is not known yet, nothing is sent before. */
  readonly after: number | Promise<number>;
  /** Only of this execution, and to its end. */
  readonly execution?: string | undefined;
  /** Only of this turn, and to its end. */
  readonly turn?: string | undefined;
  readonly recheck: Recheck;
  readonly cut: () => void;
  readonly onGone?: () => void;
}

export function feed(service: Service, session: ServerSession, options: FeedOptions): Response {
  const { after, execution, turn } = options;
  const source = (signal: AbortSignal) => eventsFrom(session, { after, execution, turn, signal });
  return goingOn(service, source, options);
}

/** Whatever comes, for as long as somebody may read it. The source ends when its signal is aborted. */
export function goingOn(
  { metrics, streams, ending, followers }: Service,
  source: (signal: AbortSignal) => AsyncIterable<object>,
  { form, principal, recheck, cut, onGone }: Omit<FeedOptions, 'after' | 'execution' | 'turn'>,
): Response {
  const left = followers.enter(principal, form);
  return streamResponse((signal) => items(source(AbortSignal.any([signal, ending])), ending), {
    form,
    ...streams,
    cut,
    refusal: async () => {
      const refusal = await refusalOf(recheck);
      return refusal && { type: 'error', ...failureOf(refusal) };
    },
    onEnd: (why) => {
      left();
      if (why === 'slow' || why === 'refused') metrics.dropped(why);
      if (why === 'gone') onGone?.();
    },
  });
}

interface From extends Pick<FeedOptions, 'after' | 'execution' | 'turn'> {
  readonly signal: AbortSignal;
}

async function* eventsFrom(session: ServerSession, { after, execution, turn, signal }: From): AsyncGenerator<FeedItem> {
  const of = { ...(execution === undefined ? {} : { execution }), ...(turn === undefined ? {} : { turn }) };
  yield* session.events({ after: await after, ...of, signal });
}

/** What ends the stream before its time is its last line, so that nobody takes it for the end. */
async function* items(events: AsyncIterable<object>, ending: AbortSignal): AsyncIterable<Item> {
  try {
    for await (const event of events) {
      yield 'seq' in event && typeof event.seq === 'number' ? { id: event.seq, data: event } : { data: event };
    }
  } catch (error) {
    if (!ending.aborted) yield { data: { type: 'error', ...failureOf(toCellaError(error, '-')) } };
  }
  if (!ending.aborted) return;
  yield { data: { type: 'error', ...failureOf(stopping('Read on from the last number you have.')) } };
}

/** Why somebody may no longer read; undefined where they may. */
export async function refusalOf(recheck: Recheck): Promise<CellaError | undefined> {
  try {
    await recheck();
    return undefined;
  } catch (error) {
    // Storage that does not answer now says nothing of who may read.
    const isRefusal = error instanceof CellaError && ['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'].includes(error.code);
    return isRefusal ? error : undefined;
  }
}
