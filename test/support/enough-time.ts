/** Time limits for code that must come so far before it meets them, on a machine that is as slow as it is. */

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
