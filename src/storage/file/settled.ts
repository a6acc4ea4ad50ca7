/** Whether a file was changed so long ago that any further change shows in its times. */

/** The coarsest clock of a file system in use ticks every two seconds; a change within a tick does not show. */
const TICK_MS = 2000;

export function isSettled({ ctimeMs }: { readonly ctimeMs: bigint | number }): boolean {
  return Math.abs(Date.now() - Number(ctimeMs)) > TICK_MS;
}
