/** What a session asks and tells a person at the terminal, beside the events of its code. */

import { approver } from './approval.ts';
import type { OpenOptions } from './context.ts';
import type { LineSource } from './lines.ts';
import type { Terminal } from './terminal.ts';

export interface Attended {
  readonly terminal: Terminal;
  readonly json: boolean;
  /** Undefined as long as nobody can be asked. */
  readonly lines: () => LineSource | undefined;
}

export function sessionHooks({ terminal, json, lines }: Attended): Pick<OpenOptions, 'approve' | 'onProgress'> {
  return {
    // Somebody else may be there to ask, where the session is a server's.
    ...(terminal.interactive ? { approve: approver({ terminal, lines }) } : {}),
    onProgress: (text) => {
      // What cannot be shown here fails again, and is told, with the first output.
      if (!json) void terminal.status(text).catch(() => {});
    },
  };
}
