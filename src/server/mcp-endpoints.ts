/** Serves every session over MCP. An endpoint is created on first use, and kept while clients use it. */

import type { SessionMcp, SessionMcpOptions } from '../mcp/session-mcp.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type { ServerContext } from './http/server-context.ts';
import { admitExecution, openKernel } from './quotas/user-quotas.ts';

/** Serves a session over MCP. */
export type MakeMcp = (session: Omit<SessionMcpOptions, 'version'>) => Promise<SessionMcp>;

/** Beyond this, the least recently used endpoint is closed. */
const MOST_ENDPOINTS = 256;

export class McpEndpoints {
  readonly #parts: Pick<ServerContext, 'sessions' | 'access' | 'kernels' | 'storageQuota'>;
  readonly #make: MakeMcp;
  readonly #endpoints = new Map<string, Promise<SessionMcp>>();

  constructor(
    parts: Pick<ServerContext, 'sessions' | 'access' | 'kernels' | 'storageQuota'>,
    { version, mcp }: { readonly version: string; readonly mcp?: MakeMcp | undefined },
  ) {
    this.#parts = parts;
    // The SDK loads when the first client comes.
    const load: MakeMcp = async (session) =>
      (await import('../mcp/session-mcp.ts')).openSessionMcp({ ...session, version });
    this.#make = mcp ?? load;
  }

  of({ id, agentKey, settings }: SessionInfo, log: (line: string) => void): Promise<SessionMcp> {
    const { sessions } = this.#parts;
    const open = sessions.allowsRuntimeDeps(settings);
    // What a server offers depends on whether packages can be changed.
    const key = `${id} ${open}`;
    const api = async () => openKernel(this.#parts, await sessions.get(id));
    const toRun = async () => {
      await admitExecution(this.#parts, await sessions.get(id));
      return await (await sessions.open(id)).api();
    };
    const inProcess = settings.executor === 'in-process';
    const known = this.#endpoints.get(key);
    const endpoint = known ?? this.#make({ agentKey, api, toRun, open, inProcess, log });
    this.#endpoints.delete(key);
    this.#endpoints.set(key, endpoint);
    // After a failure, the next request tries again.
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
    void endpoint?.then((made) => made.close()).catch(() => {}); // no caller waits for the close
  }
}
