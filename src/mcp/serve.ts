/** `cella mcp`: serves until the client has gone or somebody ends it, then saves and closes every session. */

import { agentKeyOfFolder } from './agent-key.ts';
import type { Era } from './attend.ts';
import type { Log } from './failure.ts';
import { findToken } from './http/token.ts';
import { makeServer } from './server.ts';
import { Workshop, type WorkshopOptions } from './workshop.ts';

export interface ServeOptions extends Omit<WorkshopOptions, 'agentKey' | 'log'> {
  readonly version: string;
  /** By default that of the folder this process was started in. */
  readonly agentKey?: string | undefined;
  readonly http?: HttpChoice | undefined;
  /** Resolves when somebody ends the server. */
  readonly ended: Promise<unknown>;
  readonly log: Log;
}

export interface HttpChoice {
  /** 0 for any that is free. */
  readonly port: number;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
}

export async function serveMcp(options: ServeOptions): Promise<void> {
  const { version, log, ended, http } = options;
  const agentKey = options.agentKey ?? agentKeyOfFolder(process.cwd());
  await using workshop = new Workshop({ ...options, agentKey });
  const make = (era: Era) => makeServer(workshop, { era, version });
  if (http === undefined) {
    const { serveOverStdio } = await import('./stdio.ts');
    await using served = serveOverStdio(({ era }) => make(era), log);
    await Promise.race([served.over, ended]);
    return;
  }
  const { dataDir } = options.session;
  const token = await findToken({ given: http.token, file: http.tokenFile, dataDir });
  const { serveOverHttp } = await import('./http/http.ts');
  await using served = await serveOverHttp({ port: http.port, token: token.value, make, log });
  log(`MCP at ${served.url}; agent ${agentKey}; the bearer token is in ${token.where}`);
  await ended;
}
