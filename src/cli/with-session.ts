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
  await using session = await context.openSession(options);
  if (signals.exitCode !== undefined) return signals.exitCode;
  return await Promise.race([work(session, signals), signals.ended]);
}
