/** The terminals of a session: a WebSocket whose binary frames are bytes and whose texts are what else there is to say. */

import { z } from 'zod';
import { TerminalArgv, TerminalSize } from '../workspace-models.ts';
import { endpoint, mayUse } from './endpoint.ts';

export { MOST_TYPED_BYTES, TerminalClientFrame, TerminalServerFrame } from './frames.ts';

const side = (schema: z.ZodType<number, number>, otherwise: number) =>
  z.coerce.number().pipe(schema).default(otherwise);

export const OpenTerminal = endpoint('get /v1/sessions/{id}/terminal', 'Terminal', mayUse, {
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
});
