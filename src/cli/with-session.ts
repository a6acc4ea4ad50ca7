/** A session for one piece of work: closed, and with it saved, whatever comes, also where a signal ends the command. */

import type { SessionApi } from '../session/api.ts';
import type { CommandContext, OpenOptions } from './context.ts';
import { Signals } from './signals.ts';

/** Gives the exit code of the work, or that of the signal. */
export async function withSession(
  options: OpenOptions,
  context: CommandContext,
  work: (session: SessionApi, signals: Signals) => Promise<number>,
): Promise<number> {
  using signals = new Signals(context.signals, () => false);
  const { terminal } = context;
  const onProgress = (text: string) => {
    // What cannot be shown here fails again, and is told, with the result.
    if (terminal.stderrIsScreen) void terminal.status(text).catch(() => {});
  };
  await using session = await context.openSession({ onProgress, ...options });
  if (signals.exitCode !== undefined) return signals.exitCode;
  return await Promise.race([work(session, signals), signals.ended]);
}
