/** The routes of the server itself. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';
import { Failure } from './failure.ts';

const tag = 'Server';
const everybody = { kind: 'everybody' } as const;
const anybody = { kind: 'anybody' } as const;
const admin = { kind: 'admin' } as const;

export const Home = endpoint('get /', tag, everybody, {
  summary: 'A page that says what this is',
  gives: ['text/html'],
});

export const Health = endpoint('get /health', tag, everybody, {
  summary: 'Whether the server answers',
  result: z.object({ status: z.literal('ok') }),
});

export const Ready = endpoint('get /ready', tag, anybody, {
  summary: 'Whether it takes new work and reaches its storage',
  result: z.object({ status: z.literal('ready') }),
});

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
    stopping: z.boolean(),
    /** How long running code has when it ends. */
    graceMs: z.number(),
    sessions: count,
    kernels: z.object({ live: count, spare: count, hibernated: count, most: count }),
    executions: z.object({ running: count, queued: count }),
  })
  .meta({ id: 'ServerStatus' });
export type ServerStatus = z.infer<typeof ServerStatus>;

export const GetServer = endpoint('get /v1/server', tag, admin, {
  summary: 'How the server does',
  result: ServerStatus,
});

export const StopServer = z.strictObject({
  pid: z.int().meta({ description: 'That of the server that is meant, as it tells it.' }),
  graceMs: z.int().min(0).max(86_400_000).optional().meta({ description: 'In place of its own.' }),
});
export type StopServer = z.infer<typeof StopServer>;

export const StopServerRoute = endpoint('post /v1/server/stop', tag, admin, {
  summary: 'End the server in good order; again, with a shorter grace, to end it sooner',
  audit: 'server.stop',
  body: StopServer,
  whileStopping: true,
});

const ServerEnd = z
  .object({
    failure: Failure.shape.error
      .optional()
      .meta({ description: 'Why something could not be saved; absent where all was.' }),
  })
  .meta({ id: 'ServerEnd' });

export const GetServerEnd = endpoint('get /v1/server/end', tag, admin, {
  summary: 'Wait until the server ends; it answers when everything is saved, or says what could not be',
  result: ServerEnd,
});

export const Metrics = endpoint('get /metrics', tag, anybody, {
  summary: 'Numbers for Prometheus',
  gives: ['text/plain'],
});

export const OpenApi = endpoint('get /openapi.json', tag, anybody, {
  summary: 'This document',
  gives: ['application/json'],
});

export const Docs = endpoint('get /docs', tag, anybody, { summary: 'This document, to be read', gives: ['text/html'] });
