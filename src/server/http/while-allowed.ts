/** An answer that another part streams, for as long as its client reads it, and may: the same rules as for events. */

import { refusalOf } from './feed.ts';
import type { Recheck } from './router.ts';
import type { StreamLimits } from './service.ts';

export interface WhileAllowedOptions extends Pick<StreamLimits, 'patienceMs' | 'heartbeatMs'> {
  readonly recheck: Recheck;
  /** Told once, when it is over. */
  readonly onEnd: () => void;
  /** Ends the connection of a client that does not read. */
  readonly cut: () => void;
}

export function whileAllowed(
  body: ReadableStream<Uint8Array>,
  options: WhileAllowedOptions,
): ReadableStream<Uint8Array> {
  const { recheck, onEnd, cut, patienceMs, heartbeatMs } = options;
  const reader = body.getReader();
  let slow: NodeJS.Timeout | undefined;
  let over = false;
  const end = async () => {
    clearTimeout(slow);
    clearInterval(checks);
    if (!over) onEnd();
    over = true;
    await reader.cancel().catch(() => {}); // it has failed before
  };
  const checks = setInterval(async () => {
    if (await refusalOf(recheck)) await end();
  }, heartbeatMs).unref();
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    clearTimeout(slow);
    const next = await reader.read().catch(() => undefined); // the client sees that it is cut
    if (!next || next.done) {
      await end();
      return next ? controller.close() : cut();
    }
    controller.enqueue(next.value);
    slow = setTimeout(() => void end().then(cut), patienceMs).unref();
  };
  return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
}
