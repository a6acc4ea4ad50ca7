/**
 * Ends a server whose event loop stands still at the second signal.
 *
 * Node gives signals to the event loop of its main thread alone. If that thread is in a long computation, it hears of no
 * signal, and cannot restore the default action of any. This thread hears them too, and does nothing but count. At the
 * second one it stops listening and sends the signal again, which ends the process if the main thread has stopped, too.
 *
 * Node has no public way for it: `process.on` ignores signals in workers. The binding that `process.on` uses works there,
 * and a flag for this worker alone opens it. If another version of Node does not have it, signals work as without it.
 */

import { constants } from 'node:os';
import { Worker } from 'node:worker_threads';
import { END_SIGNALS, SAME_SIGNAL_MS } from '../command-lifecycle.ts';

/** How long the default action of the signal has to end the process, before it is killed. */
const LONGEST_END_MS = 200;

const CODE = `
const { workerData: { signals, sameMs, endMs } } = require('node:worker_threads');
const { Signal } = require('internal/test/binding').internalBinding('signal_wrap');
let first;
const handles = signals.map(([name, number]) => {
  const handle = new Signal();
  handle.onsignal = () => {
    const now = performance.now();
    first ??= { name, at: now };
    if (name === first.name && now - first.at < sameMs) return;
    for (const each of handles) each.stop();
    process.kill(process.pid, name);
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), endMs);
  };
  handle.start(number);
  return handle;
});
`;

/** From here on, and until the process ends. It keeps no process from ending. */
export function endAtSecondSignal(): void {
  const worker = new Worker(CODE, {
    eval: true,
    name: 'second signal',
    env: {},
    execArgv: ['--expose-internals', '--no-warnings'],
    workerData: {
      signals: END_SIGNALS.map((name) => [name, constants.signals[name]]),
      sameMs: SAME_SIGNAL_MS,
      endMs: LONGEST_END_MS,
    },
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  worker.unref();
  worker.on('error', () => {}); // signals work as without it
}
