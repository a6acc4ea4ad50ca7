/** Where data is kept, and what a server says about itself: its status, how it ended, and `daemon.json` in the data folder. */

import { z } from 'zod';
import { ErrorBody } from './parse.ts';

const count = z.int().min(0);

export const ServerStatus = z
  .object({
    version: z.string(),
    pid: z.int(),
    /** Milliseconds since 1970. */
    startedAt: z.number(),
    url: z.string(),
    dataDir: z.string(),
    /** `file` or `redis`. */
    storage: z.string(),
    draining: z.boolean(),
    /** How long running code may continue during shutdown. */
    graceMs: z.number(),
    sessions: count,
    kernels: z.object({ live: count, spare: count, hibernated: count, most: count }),
    executions: z.object({ running: count, queued: count }),
  })
  .meta({ id: 'ServerStatus' });

export type ServerStatus = z.infer<typeof ServerStatus>;

export const StopServer = z.strictObject({
  pid: z.int().meta({ description: 'The process id of the server to stop, as the server reports it.' }),
  graceMs: z
    .int()
    .min(0)
    .max(86_400_000)
    .optional()
    .meta({ description: 'The grace period, in place of the server’s own.' }),
});

export type StopServer = z.infer<typeof StopServer>;

export const ServerEnd = z
  .object({
    failure: ErrorBody.shape.error
      .optional()
      .meta({ description: 'Why something could not be saved; absent if everything was.' }),
  })
  .meta({ id: 'ServerEnd' });

export const ServerFile = z.object({
  pid: z.int(),
  /** The id of this process in locks. Differs from every other process that has or had the same pid. */
  holder: z.string().optional(),
  url: z.string(),
  /** Its Unix socket. */
  socket: z.string(),
  version: z.string(),
  /** Milliseconds since 1970. */
  startedAt: z.number(),
  /** The address of Redis without its password, if the server does not store data in files. */
  redis: z.object({ url: z.string(), prefix: z.string() }).optional(),
});
export type ServerFile = z.infer<typeof ServerFile>;

/** In files of the data folder, or in Redis. Workspaces and packages are always in the data folder. */
export interface StorageLocation {
  readonly dataDir: string;
  /** Used instead of files in the data folder. */
  readonly redis?: { readonly url: string; readonly prefix?: string } | undefined;
}

export function isSameStorage(one: StorageLocation, other: StorageLocation): boolean {
  if (!one.redis || !other.redis) return !one.redis && !other.redis && one.dataDir === other.dataDir;
  return redisKey(one.redis) === redisKey(other.redis);
}

function redisKey({ url, prefix = 'cella' }: NonNullable<StorageLocation['redis']>): string {
  const { host, pathname } = new URL(url);
  return JSON.stringify([host, pathname.replace(/^\/?$/, '/0'), prefix]);
}
