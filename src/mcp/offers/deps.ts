/** list_deps and, unless packages are locked, add_dep and remove_dep. */

import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { DepsResult, SessionApi, WorkOptions } from '../../session/api.ts';
import { Progress } from '../progress.ts';
import type { Shop } from '../shop.ts';
import { AgentKey, type Bench, guarded, LOOKS, listing } from './offer.ts';

const Changed = z.object({
  installed: z.array(z.string()),
  failed: z.array(z.object({ requirement: z.string(), reason: z.string() })),
  removed: z.array(z.string()).optional(),
  note: z.string().optional(),
});

export function offerDeps(bench: Bench): void {
  const { server, workshop } = bench;
  server.registerTool(
    'list_deps',
    {
      title: 'List packages',
      description: 'List the Python packages that are configured for the kernels.',
      inputSchema: z.strictObject({}),
      outputSchema: z.object({ deps: z.array(z.string()) }),
      annotations: LOOKS,
    },
    () =>
      guarded(workshop, async () => {
        const deps = [...(await (await workshop.namespaces()).deps.list())];
        return listing(deps, 'No packages are configured.', { deps });
      }),
  );
  if (workshop.open) offerChanges(bench);
}

function offerChanges({ server, workshop }: Bench): void {
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
      outputSchema: Changed,
      annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    },
    ({ requirement, agent_key }, context) =>
      change(workshop, agent_key, context, (session, options) => session.deps.add(requirement, options)),
  );
  server.registerTool(
    'remove_dep',
    {
      title: 'Remove a package',
      description:
        'Take a Python package out, for all kernels. What a kernel has imported stays until it is restarted.',
      inputSchema: z.strictObject({ name: z.string().min(1).max(200), agent_key: AgentKey }),
      outputSchema: Changed,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    },
    ({ name, agent_key }, context) =>
      change(workshop, agent_key, context, (session, options) => session.deps.remove(name, options)),
  );
}

function change(
  workshop: Shop,
  agentKey: string | undefined,
  context: ServerContext,
  work: (session: SessionApi, options: WorkOptions) => Promise<DepsResult>,
): Promise<CallToolResult> {
  return guarded(workshop, async () => {
    using progress = new Progress(context);
    const { signal } = context.mcpReq;
    const session = await workshop.session(agentKey, signal);
    using _held = { [Symbol.dispose]: () => workshop.release(agentKey) };
    const done = await work(session, { signal, onProgress: (text) => progress.tell(`${text}\n`) });
    const result = Changed.parse(done);
    const now = await joinRunning(workshop, agentKey, session, signal);
    const lines = [
      ...result.installed.map((name) => `Installed ${name}.`),
      ...(result.removed ?? []).map((name) => `Removed ${name}.`),
      ...result.failed.map(({ requirement, reason }) => `Failed: ${requirement}: ${reason}`),
      ...(result.note === undefined ? [] : [result.note]),
      ...(now ? [] : ['The kernel is busy: call deps.sync() in its code to use the change.']),
    ];
    const told = listing(lines, 'Nothing had to change.', result);
    return result.failed.length > 0 ? { ...told, isError: true } : told;
  });
}

/** A kernel that is at rest finds the packages from here on; one that is not is left alone. */
async function joinRunning(
  workshop: Shop,
  agentKey: string | undefined,
  session: SessionApi,
  signal: AbortSignal,
): Promise<boolean> {
  if (!workshop.desk(agentKey).idle) return false;
  return (await session.run('deps.sync();', { signal, timeoutMs: 60_000 })).status === 'ok';
}
