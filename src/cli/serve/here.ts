/** A server in this process, until a signal or somebody who may ends it. */

import { setFlagsFromString } from 'node:v8';
import { Exit } from '../command-errors.ts';
import { EndSignals } from '../command-lifecycle.ts';
import type { ServeRequest, StartedServer } from '../context.ts';
import type { ProgramContext } from '../program.ts';
import { greeting, startWarnings } from './greeting.ts';
import { tellReadiness } from './readiness.ts';
import { endAtSecondSignal } from './second-signal.ts';

/**
 * How much the heap may grow before all of it is looked through, which stops everybody for up to 30 ms. Large requests of
 * one user have that done five times a second with V8's own choice; a server with nothing to do needs no more memory by it.
 */
const HEAP_GROWING_PERCENT = 200;

/** The first signal ends it in good order, the second at once. `readyFd` is where a parent waits to hear of it. */
export async function runHere(request: ServeRequest, context: ProgramContext, readyFd?: number): Promise<number> {
  // A program that runs this command inside has its own signals and its own memory.
  if (context.signals === process) {
    endAtSecondSignal();
    setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
  }
  using signals = new EndSignals(context.signals);
  try {
    const onReady = async (facts: StartedServer) => {
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
