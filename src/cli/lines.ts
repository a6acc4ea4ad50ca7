/** One line after the other, from a person or from a pipe: what input() and the repl read. */

export interface LineRequest {
  readonly prompt: string;
  /** The line is not shown while it is typed. */
  readonly password?: boolean;
  /** Only what is typed from here on counts, so that nothing pasted can answer. Lines from before wait for the next read. */
  readonly fresh?: boolean;
  /** Keeps the line for the arrow keys, and lets Tab complete it. */
  readonly complete?: (line: string) => Promise<readonly [matches: readonly string[], replaced: string]>;
  /** Stops waiting for the line. What was typed so far is dropped. */
  readonly signal?: AbortSignal;
}

export type Line =
  | { readonly kind: 'line'; readonly text: string }
  | { readonly kind: 'end' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'aborted' };

export interface LineSource {
  /** One at a time: the next read begins when the one before has ended. */
  read(request: LineRequest): Promise<Line>;
  close(): void;
}

/** A stdin that has been used up. */
export const noLines: LineSource = { read: async () => ({ kind: 'end' }), close: () => {} };
