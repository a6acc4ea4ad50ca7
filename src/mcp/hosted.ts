/** One session that somebody else hosts, as an MCP server of its own over HTTP. */

import { createMcpHandler, isLegacyRequest } from '@modelcontextprotocol/server';
import { CellaError } from '../protocol/errors.ts';
import type { NamespacesApi, SessionApi } from '../session/api.ts';
import { Desk } from './desk.ts';
import type { Log } from './failure.ts';
import { Connections } from './http/connections.ts';
import { makeServer } from './server.ts';
import type { Shop } from './shop.ts';
import { Suspended } from './suspended.ts';

export interface HostedParts {
  readonly agentKey: string;
  readonly api: () => Promise<SessionApi>;
  /** The same, for whoever is about to run code. */
  readonly toRun: () => Promise<SessionApi>;
  /** Whether packages can be changed. */
  readonly open: boolean;
  /** Whether the code runs in WebAssembly, without isolation. */
  readonly inProcess: boolean;
  readonly version: string;
  readonly log: Log;
}

export interface HostedMcp {
  fetch(request: Request): Promise<Response>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 300_000;

export function hostMcp(parts: HostedParts): HostedMcp {
  const { version, log } = parts;
  const shop = new HostedShop(parts);
  const onerror = (error: Error) => log(`protocol: ${error.message}`);
  const modern = createMcpHandler(({ era }) => makeServer(shop, { era, version }), {
    legacy: 'reject',
    responseMode: 'sse',
    onerror,
  });
  const connections = new Connections(() => makeServer(shop, { era: 'legacy', version }));
  return {
    fetch: async (request) =>
      (await isLegacyRequest(request)) ? await connections.handle(request) : await modern.fetch(request),
    close: async () => {
      await shop.close();
      await Promise.all([modern.close(), connections.close()]);
    },
  };
}

class HostedShop implements Shop {
  readonly options: Shop['options'];
  readonly suspended = new Suspended();
  readonly open: boolean;
  readonly inProcess: boolean;
  readonly #parts: HostedParts;
  readonly #desk: Desk;

  constructor(parts: HostedParts) {
    this.#parts = parts;
    this.open = parts.open;
    this.inProcess = parts.inProcess;
    this.options = { timeoutMs: TIMEOUT_MS, log: parts.log };
    this.#desk = new Desk({ acquire: () => parts.toRun(), release: () => {}, log: parts.log });
  }

  desk(agentKey?: string): Desk {
    this.#checkKey(agentKey);
    return this.#desk;
  }

  async session(agentKey?: string): Promise<SessionApi> {
    this.#checkKey(agentKey);
    return await this.#parts.api();
  }

  release(): void {
    // Whoever hosts the session knows when it is idle.
  }

  async namespaces(): Promise<NamespacesApi> {
    return await this.#parts.api();
  }

  async close(): Promise<void> {
    await this.#desk.close();
  }

  #checkKey(agentKey: string | undefined): void {
    if (agentKey === undefined || agentKey === this.#parts.agentKey) return;
    const message = `This is the session of ${JSON.stringify(this.#parts.agentKey)}, and no other: leave agent_key out.`;
    throw new CellaError('INVALID_REQUEST', message);
  }
}
