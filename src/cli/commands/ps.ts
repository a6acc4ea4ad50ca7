/** `cella ps`: all kernels, live and hibernated. */

import { readStorageKey } from '../../protocol/enums.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { type Column, formatTable } from '../command-output.ts';
import type { CommandContext, StorageAccess, StorageTarget } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { formatAgo, formatDuration, formatSize } from '../format.ts';
import type { ProgramContext } from '../program.ts';
import { addTargetFlags, describeTarget, resolveTarget, type TargetFlags } from '../target-options.ts';

interface PsFlags extends TargetFlags {
  readonly json?: boolean;
}

export function addPs(define: DefineCommand, context: ProgramContext, done: Done): void {
  addTargetFlags(define(HELP))
    .option('--json', 'print one JSON object')
    .action(async (flags: PsFlags) => {
      done(await ps({ place: resolveTarget(flags, context.defaults), json: flags.json === true }, context));
    });
}

const columns: readonly Column[] = [
  { title: 'KEY' },
  { title: 'USER' },
  { title: 'STATE' },
  { title: 'PID', align: 'right' },
  { title: 'HELD BY', align: 'right' },
  { title: 'MEMORY', align: 'right' },
  { title: 'IDLE', align: 'right' },
  { title: 'LAST SAVE', align: 'right' },
  { title: 'CELLS', align: 'right' },
  { title: 'FORK OF' },
];

export async function ps(
  { place, json }: { readonly place: StorageTarget; readonly json: boolean },
  context: CommandContext & StorageAccess,
): Promise<number> {
  const { terminal } = context;
  const agents = await context.listKernels(place);
  if (json) {
    const { dataDir, redis, server } = place;
    const where = server ? { url: server.url } : { dataDir, ...(redis ? { redis: describeTarget(place) } : {}) };
    await terminal.outLines(JSON.stringify({ ...where, kernels: agents }));
    return Exit.ok;
  }
  if (agents.length === 0) {
    await terminal.errLines(`There are no kernels in ${describeTarget(place)}. Start one with \`cella run -c CODE\`.`);
    return Exit.ok;
  }
  const [titles = '', ...rows] = formatTable(columns, agents.map(toRow), terminal.columns);
  await terminal.outLines(titles, 'bold');
  await terminal.outLines(rows.join('\n'));
  return Exit.ok;
}

/** The storage of a server has the kernels of its users too: they are shown with the user's own key. */
function toRow({ agentKey, state, pid, holder, memoryBytes, idleMs, lastSave, executions, workspaceOf }: KernelInfo) {
  const known = readStorageKey(agentKey);
  return [
    known.agentKey,
    known.user ?? '',
    state,
    pid === undefined ? '' : String(pid),
    holder === undefined ? '' : String(holder.pid),
    memoryBytes === undefined ? '' : formatSize(memoryBytes),
    formatDuration(idleMs),
    lastSave === undefined ? '' : formatAgo(lastSave.at),
    String(executions),
    workspaceOf === undefined ? '' : readStorageKey(workspaceOf).agentKey,
  ];
}

interface Where {
  readonly agentKey: string;
  readonly place: StorageTarget;
}

/** A kernel that never ran anything has nothing to lose. */
export async function hasAgent({ agentKey, place }: Where, stores: StorageAccess): Promise<boolean> {
  const agent = (await stores.listKernels(place)).find((each) => each.agentKey === agentKey);
  return agent !== undefined && (agent.executions > 0 || agent.lastSave !== undefined);
}

/** Opening a session with a mistyped key would create a kernel. */
export async function requireAgent(where: Where, stores: StorageAccess): Promise<void> {
  if (await hasAgent(where, stores)) return;
  throw new UsageError(
    `There is no kernel ${JSON.stringify(where.agentKey)} in ${describeTarget(where.place)}.`,
    '`cella ps` shows all of them. Choose one with --agent, or another storage with --data or --redis.',
  );
}

const HELP = `
Examples:
  $ cella ps
  $ cella ps --json | jq -r '.kernels[] | select(.state == "live") | .agentKey'

KEY is the agent key that owns the kernel. HELD BY is the process that holds a live kernel. A hibernated
kernel resumes with its variables at the next use.`;
