/** What a host counts, for whoever watches it. */

export interface Counters {
  events: number;
  eventsLost: number;
  appendFailures: number;
  readers: number;
  running: number;
  queued: number;
  /** Kernels that somebody had reset or restarted. */
  restarts: number;
  /** By how they ended. */
  readonly executions: Record<string, number>;
  /** Of agents, by how they ended. */
  readonly turns: Record<string, number>;
  /** Told of each execution that has ended, with the time since its turn came. */
  onEnded: (ending: string, ms: number) => void;
}

export function newCounters(): Counters {
  const none = { events: 0, eventsLost: 0, appendFailures: 0, readers: 0, running: 0, queued: 0, restarts: 0 };
  return { ...none, executions: {}, turns: {}, onEnded: () => {} };
}
