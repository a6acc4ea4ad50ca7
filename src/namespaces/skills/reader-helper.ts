/** Whoever runs the program that reads skills: a process of the host's, or an interpreter that lives elsewhere. */

export type Answer =
  | { readonly kind: 'reply'; readonly line: string }
  | { readonly kind: 'gone' | 'late' | 'flood'; readonly reason: string };

export interface ReaderHelper {
  readonly alive: boolean;
  /** One at a time. The source is data: it is never run. One that was late is ended by whoever asked. */
  ask(source: string, timeoutMs: number): Promise<Answer>;
  /** May be called again. */
  end(): Promise<void>;
}

/**
 * For an interpreter that is no process of the host's. It runs `program` once, under another name than `__main__`, and
 * answers each source with the line that the program's `reply(source)` gives.
 */
export type StartReader = (program: string) => Promise<ReaderHelper>;
