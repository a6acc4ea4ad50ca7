/** Runs commands in process groups of their own, so that one signal to this process ends all of them. */

import { spawn } from 'node:child_process';

const running = new Set();
const cleanups = [];
let stopping = false;

/** Resolves to the exit code, or never once this process was told to stop. A signal's end counts as 143. */
export function run(command, args, options = {}) {
  if (stopping) return new Promise(() => {});
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'], ...options, detached: true });
  running.add(child);
  return new Promise((resolve) => {
    const end = (code) => {
      running.delete(child);
      if (!stopping) resolve(code);
    };
    child.once('error', (error) => {
      console.error(`${command} did not start: ${error.message}`);
      end(127);
    });
    child.once('close', (code) => end(code ?? 143));
  });
}

/** Folders and the like to take away at the end, however it comes. Cleanups are synchronous. */
export function atEnd(cleanup) {
  cleanups.push(cleanup);
}

function signalAll(signal) {
  for (const { pid } of running) {
    try {
      process.kill(-pid, signal);
    } catch {
      // The group is gone.
    }
  }
}

process.on('exit', () => {
  signalAll('SIGKILL');
  for (const cleanup of cleanups.splice(0).reverse()) cleanup();
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
]) {
  process.on(signal, () => {
    if (stopping) return signalAll('SIGKILL');
    stopping = true;
    console.error(`\nStopping on ${signal}; a second one stops at once.`);
    signalAll('SIGTERM');
    const deadline = Date.now() + 10_000;
    const timer = setInterval(() => {
      if (running.size > 0 && Date.now() < deadline) return;
      clearInterval(timer);
      process.exit(code);
    }, 50);
  });
}
