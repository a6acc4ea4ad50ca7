/** Ends a server at the second signal, even if its event loop is blocked: a worker thread receives the signals, too. */

import os from 'node:os';
import { Worker } from 'node:worker_threads';
import { END_SIGNALS, SAME_SIGNAL_MS } from '../command-lifecycle.ts';

/** How long the default action of the signal may take to end the process before it is killed. */
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

/** Active from now on until the process ends. Does not keep the process alive. */
export function endAtSecondSignal(): void {
  const worker = new Worker(CODE, {
    eval: true,
    name: 'second signal',
    env: {},
    execArgv: ['--expose-internals', '--no-warnings'],
    workerData: {
      signals: END_SIGNALS.map((name) => [name, os.constants.signals[name]]),
      sameMs: SAME_SIGNAL_MS,
      endMs: LONGEST_END_MS,
    },
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  worker.unref();
  worker.on('error', () => {}); // signals then work as they do without it
}
