/** From what a command line says of a server to what the server takes. */

import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { SessionOptions } from '../session/options.ts';
import type { Storage } from '../storage/contract.ts';
import { logLevels } from './http/logs.ts';
import { privileges } from './http/service.ts';
import type { ServeOptions } from './serve.ts';

export interface Wanted {
  readonly version: string;
  readonly dataDir: string;
  readonly storage?: Storage | undefined;
  readonly mcp?: ServeOptions['mcp'];
  readonly address: string;
  readonly port: number;
  readonly tls?: ServeOptions['tls'];
  readonly insecureHttp: boolean;
  readonly names: readonly string[];
  readonly advertise?: string;
  readonly membersMay: readonly string[];
  readonly maxKernels?: number;
  readonly idleMs?: number;
  readonly graceMs: number;
  /** Requests a second of one token. */
  readonly rate?: number;
  readonly flushResults: boolean;
  readonly logLevel: string;
  readonly logFile?: string;
  readonly python?: string;
  readonly packages?: SessionOptions['packages'];
  readonly toolFolders?: string[];
  readonly session: Pick<SessionOptions, 'credentials'>;
}

export function serveOptions(wanted: Wanted): ServeOptions {
  const {
    maxKernels,
    idleMs,
    logLevel,
    logFile,
    python,
    packages,
    toolFolders,
    membersMay,
    rate,
    flushResults,
    session,
    ...rest
  } = wanted;
  return {
    ...rest,
    membersMay: membersMay.map((privilege) => oneOf(privileges, privilege, '--members-may')),
    log: { level: oneOf(logLevels, logLevel, '--log-level'), file: logFile },
    ...(rate === undefined ? {} : { rates: { perSecond: rate, burst: rate * 4 } }),
    hosting: {
      flushResults,
      ...(maxKernels === undefined ? {} : { pool: { maxKernels } }),
      ...(idleMs === undefined ? {} : { idleTtlMs: idleMs }),
    },
    session: {
      ...session,
      ...(python === undefined ? {} : { python }),
      ...(packages === undefined ? {} : { packages }),
      ...(toolFolders === undefined ? {} : { toolFolders }),
    },
  };
}

function oneOf<const T extends readonly [string, ...string[]]>(all: T, given: string, flag: string): T[number] {
  const parsed = z.enum(all).safeParse(given);
  if (parsed.success) return parsed.data;
  throw new CellaError(
    'INVALID_OPTIONS',
    `${flag} does not know ${JSON.stringify(given)}; it takes ${all.join(', ')}.`,
  );
}
