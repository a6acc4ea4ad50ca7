/** Long work as an answer that goes on: lines on how far it is, and what came of it as the last. */

import type { DepsLine } from '../../protocol/api/namespace-routes.ts';
import { cut, type ExchangeContext } from './exchange.ts';
import { failureOf, toCellaError } from './failure.ts';
import type { Service } from './service.ts';
import { formOf, type Item, streamResponse } from './streams.ts';

type Result = Extract<DepsLine, { type: 'result' }>['result'];
/** `signal` is aborted where the client has gone. */
export type Work = (options: { signal: AbortSignal; onProgress?: (text: string) => void }) => Promise<Result>;

/** One JSON object for whoever does not ask for lines. */
export async function withProgress(
  { streams }: Pick<Service, 'streams'>,
  context: ExchangeContext,
  work: Work,
): Promise<Result | Response> {
  const { signal } = context.req.raw;
  if (formOf(context.req.header('accept')) !== 'ndjson') return await work({ signal });
  return streamResponse((gone) => lines(work, AbortSignal.any([gone, signal])), {
    form: 'ndjson',
    ...streams,
    refusal: async () => undefined,
    onEnd: () => {},
    cut: () => cut(context.env),
  });
}

/** Of a client that reads slowly, only the newest lines wait. */
const MOST_WAITING = 100;

async function* lines(work: Work, signal: AbortSignal): AsyncGenerator<Item, void, undefined> {
  const waiting: DepsLine[] = [];
  let wake = () => {};
  let over = false;
  const onProgress = (text: string) => {
    waiting.push({ type: 'progress', text });
    if (waiting.length > MOST_WAITING) waiting.shift();
    wake();
  };
  const done = work({ signal, onProgress }).finally(() => {
    over = true;
    wake();
  });
  done.catch(() => {}); // told as the last line
  while (!over || waiting.length > 0) {
    const line = waiting.shift();
    if (line) yield { data: line };
    else {
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (over) resolve();
      });
    }
  }
  try {
    yield { data: { type: 'result', result: await done } satisfies DepsLine };
  } catch (error) {
    yield { data: { type: 'error', ...failureOf(toCellaError(error, '-')) } };
  }
}
