/** Job control: how a shell that started this command takes its terminal back, and gives it again. */

/** What a shell stops and continues as one: this process and those that it was started with. */
export interface Job {
  on(signal: 'SIGCONT', listener: () => void): unknown;
  off(signal: 'SIGCONT', listener: () => void): unknown;
  stop(): void;
}

export const thisJob: Job = {
  on: (signal, listener) => process.on(signal, listener),
  off: (signal, listener) => process.off(signal, listener),
  stop: () => process.kill(0, 'SIGTSTP'),
};
