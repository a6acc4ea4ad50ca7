/** What to do about a process that does not do what it should: it is slow on a busy machine, or somebody holds it still. */

import { readFileSync } from 'node:fs';

/** A kernel that lives on for so long after it was killed will not be killed alone. More than pid 1 gives any program. */
const LONGEST_KILL_MS = 20_000;

export interface Stillness {
  /** After how long a kill is strange enough to look why. */
  readonly lookMs: number;
  /** Whether nothing in there can move. `pid` is that of pid 1, as the host sees it. Never rejects. */
  heldStill(pid: number): Promise<boolean>;
}

/** After how long without an answer it is worth a look whether a process was stopped. */
const LOOK_MS = 1500;

/** Whether a signal or a debugger has stopped a process, or a freezer holds it. */
export function isStopped(pid: number): boolean {
  try {
    // After the name, which may hold anything but ends with the last parenthesis.
    const [state = ''] = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ', 1) ?? [];
    return state === 'T' || state === 't' || (state === 'D' && isFrozen(pid));
  } catch {
    return false; // it has ended, or the system has no /proc
  }
}

/** By a cgroup: its processes then wait there, in the same state as those that wait for a disk. */
function isFrozen(pid: number): boolean {
  try {
    return /refrigerator|freez/.test(readFileSync(`/proc/${pid}/wchan`, 'latin1'));
  } catch {
    return false; // the system does not tell
  }
}

export interface Answering {
  readonly pid: number;
  /** However busy the machine is, it answers within this time. */
  readonly timeoutMs: number;
}

/** Waits for another process: rejects with `silent` once it was stopped, or has had its time. */
export async function answered<T>(
  answer: Promise<T>,
  { pid, timeoutMs }: Answering,
  silent: (why: string) => Error,
): Promise<T> {
  const began = performance.now();
  const late = Promise.withResolvers<never>();
  const look = () => {
    if (isStopped(pid)) late.reject(silent(`process ${pid} was stopped`));
    else if (performance.now() - began >= timeoutMs)
      late.reject(silent(`process ${pid} has not answered for ${timeoutMs / 1000} s`));
  };
  const timer = setInterval(look, Math.min(LOOK_MS, timeoutMs));
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearInterval(timer);
  }
}

/** Calls `end` where what was killed cannot end by itself: at once where it is held still, and late where it is not. */
export function endWhereHeld(
  exited: Promise<unknown>,
  pid: number,
  { lookMs, heldStill }: Stillness,
  end: () => void,
): void {
  const began = performance.now();
  let over = false;
  let timer: NodeJS.Timeout;
  const wait = (): void => {
    timer = setTimeout(async () => {
      const held = performance.now() - began >= LONGEST_KILL_MS || (await heldStill(pid));
      if (over) return;
      if (held) end();
      else wait();
    }, lookMs);
  };
  wait();
  void exited.then(() => {
    over = true;
    clearTimeout(timer);
  });
}
