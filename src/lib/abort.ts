/** Acts on an AbortSignal without leaving a listener on it. Runs in browsers, too. */

/** Calls `act` when the signal is aborted, or at once if it already is. Disposing the result removes the listener. */
export function onAbort(signal: AbortSignal | undefined, act: () => void): Disposable {
  if (signal?.aborted) act();
  else signal?.addEventListener('abort', act, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener('abort', act) };
}

/** Rejects with `why` once the signal is aborted. The work itself continues: others may be waiting for it. */
export async function raceAbort<T>(work: Promise<T>, signal: AbortSignal | undefined, why: () => Error): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  // Without `using`: not all browsers know Symbol.dispose.
  const listener = onAbort(signal, () => aborted.reject(why()));
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    listener[Symbol.dispose]();
  }
}
