/** The terminals of a session: a WebSocket whose binary frames are bytes and whose texts are what else there is to say. */

import { z } from 'zod';
import { TerminalArgv, TerminalSize } from '../terminal.ts';
import { endpoint } from './endpoint.ts';
import { Failure } from './failure.ts';

const side = (schema: z.ZodType<number, number>, otherwise: number) =>
  z.coerce.number().pipe(schema).default(otherwise);

export const OpenTerminal = endpoint(
  'get /v1/sessions/{id}/terminal',
  'Terminal',
  { kind: 'session', right: 'use' },
  {
    summary: 'A WebSocket: a terminal in the sandbox of the session. Binary frames are bytes, texts are JSON',
    audit: 'terminal.open',
    socket: true,
    whileStopping: false,
    query: z.strictObject({
      cols: side(TerminalSize.shape.cols, 80),
      rows: side(TerminalSize.shape.rows, 24),
      argv: z
        .union([z.string().transform((word) => [word]), z.array(z.string())])
        .pipe(TerminalArgv)
        .optional()
        .meta({ description: 'The program and its arguments, one each; without it the shell that there is.' }),
    }),
  },
);

/** What a client says beside what is typed. */
export const TerminalClientFrame = z.strictObject({ type: z.literal('resize'), ...TerminalSize.shape });

/** What it is told beside what is shown. `exit` is the last; an `error` may be about a frame, or why it never began. */
export const TerminalServerFrame = z.union([
  z.object({ type: z.literal('exit'), code: z.int() }),
  z.object({ type: z.literal('exit'), signal: z.string() }),
  z.object({ type: z.literal('error'), ...Failure.shape }),
]);
export type TerminalServerFrame = z.infer<typeof TerminalServerFrame>;

/** The largest binary frame that a client may send. */
export const MOST_TYPED_BYTES = 64 * 1024;
