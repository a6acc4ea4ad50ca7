/** Work without a kernel that a signal stops: its own signal is aborted, and what it leaves undone is nothing. */

import type { CommandContext } from './context.ts';
import { Signals } from './signals.ts';

/** Gives the exit code of the work, or that of the signal. */
export async function stoppable(
  { signals: source }: CommandContext,
  work: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const stop = new AbortController();
  using signals = new Signals(source, () => false);
  void signals.ended.then(() => stop.abort());
  try {
    return await work(stop.signal);
  } catch (error) {
    // That it was stopped is no news to whoever stopped it.
    if (signals.exitCode !== undefined) return signals.exitCode;
    throw error;
  }
}
