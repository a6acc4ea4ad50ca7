/** A server in this process, until a signal or somebody who may ends it. */

import type { ServedFacts, ServeRequest } from '../context.ts';
import { Exit } from '../exit.ts';
import type { ProgramContext } from '../program.ts';
import { EndSignals } from '../signals.ts';
import { greeting, startWarnings } from './greeting.ts';
import { tellReadiness } from './readiness.ts';
import { endAtSecondSignal } from './second-signal.ts';

/** The first signal ends it in good order, the second at once. `readyFd` is where a parent waits to hear of it. */
export async function runHere(request: ServeRequest, context: ProgramContext, readyFd?: number): Promise<number> {
  // Those who run a command inside another program have signals of their own.
  if (context.signals === process) endAtSecondSignal();
  using signals = new EndSignals(context.signals);
  try {
    const onReady = async (facts: ServedFacts) => {
      if (readyFd === undefined) {
        await context.terminal.out(greeting(facts, context));
        for (const warning of startWarnings(request.membersMay)) await context.terminal.errLines(warning, 'yellow');
      } else tellReadiness(readyFd, { ready: facts });
    };
    await context.serve(request, { onReady, ended: signals.ended });
    return Exit.ok;
  } catch (error) {
    if (readyFd !== undefined) tellReadiness(readyFd, { failed: error });
    throw error;
  }
}
