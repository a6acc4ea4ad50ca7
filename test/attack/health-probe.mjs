/** A thread that asks a server for its health again and again: the longest wait for an answer, and the most memory. */

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';

const EVERY_MS = 10;
let longest = 0;
let asked = performance.now();
let waiting = false;
let mostMb = 0;

parentPort.on('message', () => {
  // An answer that has not come yet counts with the wait so far.
  const longestMs = Math.max(longest, waiting ? performance.now() - asked : 0);
  parentPort.postMessage({ longestMs, mostMb });
  longest = 0;
  mostMb = 0;
});

function ask() {
  asked = performance.now();
  waiting = true;
  const next = () => {
    longest = Math.max(longest, performance.now() - asked);
    waiting = false;
    setTimeout(ask, EVERY_MS);
  };
  const sent = request(new URL('/health', workerData.url), { agent: false }, (answer) => {
    answer.resume();
    answer.on('close', next);
  });
  // A server that is restarted is no stall.
  sent.on('error', () => {
    waiting = false;
    setTimeout(ask, EVERY_MS);
  });
  sent.end();
}
ask();

setInterval(() => {
  try {
    const [, kb] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${workerData.pid}/status`, 'utf8')) ?? [];
    mostMb = Math.max(mostMb, Number(kb) / 1024);
  } catch {
    // It has ended.
  }
}, 50);
