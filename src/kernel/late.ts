/**
 * A timer for what somebody else must say in time. A process that was busy, or got no processor, hears of the time before
 * it hears what was said: here what has come meanwhile is read first.
 */

/** Calls `act` where nobody has called what this returns by then. */
export function whenLate(ms: number, act: () => void): () => void {
  let last: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    last = setImmediate(act);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(last);
  };
}
