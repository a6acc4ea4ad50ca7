/** How another trusted process finds the same storage. It may hold a password: never give it to a kernel. */

import { z } from 'zod';

/** The scope of skills, artifacts and deps, if it is one. */
const scope = z.string().min(1).optional();

export const BootstrapConfig = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('file'), path: z.string().min(1), scope }),
  z.strictObject({ type: z.literal('redis'), url: z.string().min(1), prefix: z.string().min(1), scope }),
]);
export type BootstrapConfig = z.infer<typeof BootstrapConfig>;
