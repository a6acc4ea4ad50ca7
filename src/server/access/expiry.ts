/** Whether something with a limited life is alive. */

/** Clocks are set right by steps of this size at most; a larger step back makes what was made later unusable. */
const TOLERANCE_MS = 5 * 60_000;

export interface Lifetime {
  readonly createdAt: number;
  /** Never, where it is left out. */
  readonly expiresAt?: number | undefined;
}

/** A clock that was set back brings nothing back to life that was to end: before its time it is not valid either. */
export function isAlive({ createdAt, expiresAt }: Lifetime, now: number): boolean {
  return expiresAt === undefined || (now < expiresAt && now >= createdAt - TOLERANCE_MS);
}

/** Gone for good, and not only by a clock that was set back. */
export const isOver = ({ expiresAt }: Lifetime, now: number): boolean => expiresAt !== undefined && now >= expiresAt;
