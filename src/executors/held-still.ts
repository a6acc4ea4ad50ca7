/** What to do about a process that does not do what it should: it is slow on a busy machine, or somebody holds it still. */

/** A kernel that lives on for so long after it was killed will not be killed alone. More than pid 1 gives any program. */
const LONGEST_KILL_MS = 20_000;

export interface Stillness {
  /** After how long a kill is strange enough to look why. */
  readonly lookMs: number;
  /** Whether nothing in there can move. `pid` is that of pid 1, as the host sees it. Never rejects. */
  heldStill(pid: number): Promise<boolean>;
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
