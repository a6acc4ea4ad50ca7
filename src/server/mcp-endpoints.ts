/** Every session as an MCP server: made when a client first asks for it, and kept while clients use it. */

import type { SessionInfo } from '../protocol/session-info.ts';
import type { SessionApi } from '../session/api.ts';
import type { ServerContext } from './http/server-context.ts';
import { admitExecution, wakeSession } from './quotas/admission.ts';

export interface McpEndpoint {
  fetch(request: Request): Promise<Response>;
  close(): Promise<void>;
}

/** Serves a session over MCP. */
export type MakeMcp = (session: {
  readonly agentKey: string;
  readonly api: () => Promise<SessionApi>;
  /** As `api`, for whoever is about to run code: it counts. */
  readonly toRun: () => Promise<SessionApi>;
  readonly open: boolean;
  readonly inProcess: boolean;
  readonly log: (line: string) => void;
}) => Promise<McpEndpoint>;

/** The one that was not used for the longest time goes first. */
const MOST_ENDPOINTS = 256;

export class McpEndpoints {
  readonly #parts: Pick<ServerContext, 'host' | 'access' | 'kernels' | 'storageQuota'>;
  readonly #make: MakeMcp;
  readonly #endpoints = new Map<string, Promise<McpEndpoint>>();

  constructor(
    parts: Pick<ServerContext, 'host' | 'access' | 'kernels' | 'storageQuota'>,
    { version, mcp }: { readonly version: string; readonly mcp?: MakeMcp | undefined },
  ) {
    this.#parts = parts;
    // The SDK loads when the first client comes.
    const load: MakeMcp = async (session) =>
      (await import('../mcp/hosted-session.ts')).hostMcp({ ...session, version });
    this.#make = mcp ?? load;
  }

  of({ id, agentKey, settings }: SessionInfo, log: (line: string) => void): Promise<McpEndpoint> {
    const { host } = this.#parts;
    const open = settings.allowRuntimeDeps !== false;
    // What a server offers depends on whether packages can be changed.
    const key = `${id} ${open}`;
    const api = async () => wakeSession(this.#parts, await host.get(id));
    const toRun = async () => {
      await admitExecution(this.#parts, await host.get(id));
      return await (await host.open(id)).api();
    };
    const inProcess = settings.executor === 'in-process';
    const known = this.#endpoints.get(key);
    const endpoint = known ?? this.#make({ agentKey, api, toRun, open, inProcess, log });
    this.#endpoints.delete(key);
    this.#endpoints.set(key, endpoint);
    // What could not be made is tried again for the next who asks.
    endpoint.catch(() => this.#endpoints.get(key) === endpoint && this.#endpoints.delete(key));
    const [oldest] = this.#endpoints.keys();
    if (this.#endpoints.size > MOST_ENDPOINTS && oldest !== undefined) this.#drop(oldest);
    return endpoint;
  }

  close(): void {
    for (const key of [...this.#endpoints.keys()]) this.#drop(key);
  }

  #drop(key: string): void {
    const endpoint = this.#endpoints.get(key);
    this.#endpoints.delete(key);
    void endpoint?.then((made) => made.close()).catch(() => {}); // nobody waits for its end
  }
}
