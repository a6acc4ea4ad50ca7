/** How every failure looks on the wire. Match on `code`, never on the text. */

import { z } from 'zod';

export const Failure = z
  .object({
    error: z.object({
      code: z.string().meta({ description: 'One of the codes in docs/errors.md.' }),
      message: z.string(),
      advice: z.string().meta({ description: 'What the reader can do about it.' }),
      details: z.record(z.string(), z.unknown()),
    }),
  })
  .meta({ id: 'Failure' });
export type Failure = z.infer<typeof Failure>;
