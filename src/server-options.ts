/** The options of `Server.open`, checked before anything starts. What is left out is as `cella serve` has it on that data folder. */

import { z } from 'zod';
import { Quotas } from './protocol/access-models.ts';
import { keyModes } from './protocol/enums.ts';
import { milliseconds } from './protocol/session-info.ts';
import { SessionOptions } from './session/session-options.ts';
import { logLevels } from './settings/settings-table.ts';

const { dataDir, storage, python, packages, toolFolders, credentials } = SessionOptions.shape;
const count = z.int().min(1).max(100_000);
const words = z.array(z.string().min(1)).readonly();
const bytes = z.number().min(0);

export const ServerOptions = z.strictObject({
  dataDir,
  /** Where sessions and their things are kept, in place of files in the data folder. Whoever opened it closes it. */
  storage,
  /** Listens at this port of 127.0.0.1 too, 0 for any that is free. By default only the user of this process reaches it. */
  port: z.int().min(0).max(65_535).optional(),
  python,
  packages: packages.unwrap().optional(),
  toolFolders: toolFolders.unwrap().optional(),
  credentials,
  /** What stored keys are encrypted with: 64 hexadecimal digits, or 32 bytes in base64. */
  masterKey: z.string().min(1).optional(),
  /** Kernels that may live at a time, and how long until an idle one sleeps. */
  maxKernels: count.optional(),
  idleMs: milliseconds.optional(),
  /** Executors of agents that may live at a time, and how long one is kept for the next prompt. */
  maxAgents: count.optional(),
  agentIdleMs: milliseconds.optional(),
  /** How agents get to their models, as the flags of `cella serve` have it. */
  gateway: z
    .strictObject({
      keys: z.enum(keyModes).exactOptional(),
      providers: words.exactOptional(),
      models: words.exactOptional(),
      prices: words.exactOptional(),
      sessionUsd: z.number().min(0).exactOptional(),
      sessionTokens: z.int().min(0).exactOptional(),
    })
    .optional(),
  quotas: Quotas.optional(),
  /** How much of each session's events stays; 0 is all. */
  retention: z
    .strictObject({
      maxAgeMs: milliseconds.exactOptional(),
      maxBytes: bytes.exactOptional(),
      maxFileBytes: bytes.exactOptional(),
    })
    .optional(),
  /** Whether results are on the disk before they are told. */
  flushResults: z.boolean().optional(),
  /** How long running code has when the server ends. */
  graceMs: milliseconds.optional(),
  logLevel: z.enum(logLevels).default('silent'),
  logFile: z.string().min(1).optional(),
});

/** What a caller writes. */
export type ServerOptions = z.input<typeof ServerOptions>;
export type CheckedServerOptions = z.output<typeof ServerOptions>;
