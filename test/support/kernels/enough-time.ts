/** Time limits for code on a machine that is as slow as it is: those that it must come so far within, and those it must keep. */

const MOST_MS = 15_000;

/** Tries with a short limit, and with a longer one where that was too short for the machine. Gives the last result. */
export async function inEnoughTime<T>(
  firstMs: number,
  attempt: (timeoutMs: number) => Promise<T>,
  cameFarEnough: (result: T) => boolean,
): Promise<T> {
  for (let timeoutMs = firstMs; ; timeoutMs *= 4) {
    const result = await attempt(timeoutMs);
    if (cameFarEnough(result) || timeoutMs * 4 > MOST_MS) return result;
  }
}

const TRIES = 5;

/**
 * The shortest of a few times, no more of them than it takes to be quick enough: what holds up one try is the machine, and
 * what holds up all of them is not. `attempt` gives how long it took.
 */
export async function shortestMs(quickMs: number, attempt: () => Promise<number>): Promise<number> {
  let shortest = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < TRIES && shortest >= quickMs; tried++) shortest = Math.min(shortest, await attempt());
  return shortest;
}
