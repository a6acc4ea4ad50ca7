/** The MCP tools for Python packages. */

import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { DepsResult, SessionApi, WorkOptions } from '../../session/api.ts';
import type { McpBackend } from '../mcp-backend.ts';
import { CallProgress } from './run-code.ts';
import { AgentKey, asToolResult, listResult, READ_ONLY, type ToolContext } from './tool-context.ts';

const DepsChange = z.object({
  installed: z.array(z.string()),
  failed: z.array(z.object({ requirement: z.string(), reason: z.string() })),
  removed: z.array(z.string()).optional(),
  note: z.string().optional(),
});

export function registerDeps(context: ToolContext): void {
  const { server, backend } = context;
  server.registerTool(
    'list_deps',
    {
      title: 'List packages',
      description: 'List the Python packages that are configured for the kernels.',
      inputSchema: z.strictObject({}),
      outputSchema: z.object({ deps: z.array(z.string()) }),
      annotations: READ_ONLY,
    },
    () =>
      asToolResult(backend, async () => {
        const deps = [...(await (await backend.namespaces()).deps.list())];
        return listResult(deps, 'No packages are configured.', { deps });
      }),
  );
  if (backend.canChangeDeps) registerDepsChanges(context);
}

function registerDepsChanges({ server, backend }: ToolContext): void {
  server.registerTool(
    'add_dep',
    {
      title: 'Add a package',
      description:
        'Install a Python package and keep it for all kernels. It can be imported at once. What could not be installed is told with the reason.',
      inputSchema: z.strictObject({
        requirement: z.string().min(1).max(1000).describe('A name, with versions if needed: pandas>=2.0.'),
        agent_key: AgentKey,
      }),
      outputSchema: DepsChange,
      annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    },
    ({ requirement, agent_key }, context) =>
      changeDeps(backend, agent_key, context, (session, options) => session.deps.add(requirement, options)),
  );
  server.registerTool(
    'remove_dep',
    {
      title: 'Remove a package',
      description:
        'Take a Python package out, for all kernels. What a kernel has imported stays until it is restarted.',
      inputSchema: z.strictObject({ name: z.string().min(1).max(200), agent_key: AgentKey }),
      outputSchema: DepsChange,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    },
    ({ name, agent_key }, context) =>
      changeDeps(backend, agent_key, context, (session, options) => session.deps.remove(name, options)),
  );
}

function changeDeps(
  backend: McpBackend,
  agentKey: string | undefined,
  context: ServerContext,
  work: (session: SessionApi, options: WorkOptions) => Promise<DepsResult>,
): Promise<CallToolResult> {
  return asToolResult(backend, async () => {
    using progress = new CallProgress(context);
    const { signal } = context.mcpReq;
    const session = await backend.session(agentKey, signal);
    using _held = { [Symbol.dispose]: () => backend.release(agentKey) };
    const done = await work(session, { signal, onProgress: (text) => progress.report(`${text}\n`) });
    const result = DepsChange.parse(done);
    const now = await syncRunningKernel(backend, agentKey, session, signal);
    const lines = [
      ...result.installed.map((name) => `Installed ${name}.`),
      ...(result.removed ?? []).map((name) => `Removed ${name}.`),
      ...result.failed.map(({ requirement, reason }) => `Failed: ${requirement}: ${reason}`),
      ...(result.note === undefined ? [] : [result.note]),
      ...(now ? [] : ['The kernel is busy: call deps.sync() in its code to use the change.']),
    ];
    const summary = listResult(lines, 'Nothing had to change.', result);
    return result.failed.length > 0 ? { ...summary, isError: true } : summary;
  });
}

/** A kernel that is at rest finds the packages from here on; one that is not is left alone. */
async function syncRunningKernel(
  backend: McpBackend,
  agentKey: string | undefined,
  session: SessionApi,
  signal: AbortSignal,
): Promise<boolean> {
  if (!backend.queue(agentKey).idle) return false;
  return (await session.run('deps.sync();', { signal, timeoutMs: 60_000 })).status === 'ok';
}
