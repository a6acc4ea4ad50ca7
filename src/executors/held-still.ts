/** What to do about a kill that is not carried out: pid 1 is slow on a busy machine, or somebody outside holds it still. */

/** A kernel that lives on for so long after it was killed will not be killed alone. More than pid 1 gives any program. */
const LONGEST_KILL_MS = 20_000;

export interface Stillness {
  /** After how long a kill is strange enough to look why. */
  readonly lookMs: number;
  /** Whether nothing in there can move. Never rejects. */
  heldStill(): Promise<boolean>;
}

/** Calls `end` where what was killed cannot end by itself: at once where it is held still, and late where it is not. */
export function endWhereHeld(exited: Promise<unknown>, { lookMs, heldStill }: Stillness, end: () => void): void {
  const began = performance.now();
  let over = false;
  let timer: NodeJS.Timeout;
  const wait = (): void => {
    timer = setTimeout(async () => {
      const held = performance.now() - began >= LONGEST_KILL_MS || (await heldStill());
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
