/** `daemon.json` in the data folder: what a client of this machine needs to know of the server there. It holds no secret. */

import { z } from 'zod';

export const DaemonFacts = z.object({
  pid: z.int(),
  /** What the server keeps its locks by; it tells the process from others that have or had its pid. */
  holder: z.string().exactOptional(),
  url: z.string(),
  /** Its Unix socket. */
  socket: z.string(),
  version: z.string(),
  /** Milliseconds since 1970. */
  startedAt: z.number(),
  /** Where it keeps things, if not in files: the address without its password. */
  redis: z.object({ url: z.string(), prefix: z.string() }).exactOptional(),
});
export type DaemonFacts = z.infer<typeof DaemonFacts>;
