/** A server in this process, until a signal or somebody who may ends it. */

import type { ServedFacts, ServeRequest } from '../context.ts';
import { Exit } from '../exit.ts';
import type { ProgramContext } from '../program.ts';
import { greeting } from './greeting.ts';
import { tellReadiness } from './readiness.ts';

const names = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** Ctrl-C reaches this process from the terminal, and again from a program such as npm that passes it on. */
const SAME_SIGNAL_MS = 250;

/** The first signal ends it in good order, the second at once. `readyFd` is where a parent waits to hear of it. */
export async function runHere(request: ServeRequest, context: ProgramContext, readyFd?: number): Promise<number> {
  const [ended, forced] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let last: { readonly name: string; readonly at: number } | undefined;
  const listeners = names.map((name) => {
    const listener = () => {
      const at = performance.now();
      if (last?.name === name && at - last.at < SAME_SIGNAL_MS) return;
      if (last) forced.resolve();
      last = { name, at };
      ended.resolve();
    };
    return { name, listener };
  });
  for (const { name, listener } of listeners) context.signals.on(name, listener);
  try {
    const onReady = async (facts: ServedFacts) => {
      if (readyFd === undefined) await context.terminal.out(greeting(facts, context));
      else tellReadiness(readyFd, { ready: facts });
    };
    await context.serve(request, { onReady, ended: ended.promise, forced: forced.promise });
    return Exit.ok;
  } catch (error) {
    if (readyFd !== undefined) tellReadiness(readyFd, { failed: error });
    throw error;
  } finally {
    for (const { name, listener } of listeners) context.signals.off(name, listener);
  }
}
