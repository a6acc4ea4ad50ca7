/** `cella ps`: all kernels, live and hibernated. */

import { readStorageKey } from '../../protocol/enums.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import type { Backend, StorageTarget } from '../backend/backend.ts';
import { UsageError } from '../command-errors.ts';
import { type Column, formatTable } from '../command-output.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { formatAgo, formatDuration, formatSize } from '../format.ts';
import { addTargetFlags, describeTarget, resolveTarget, type TargetFlags } from '../target-options.ts';

interface PsFlags extends TargetFlags {
  readonly json?: boolean;
}

export function addPs(define: DefineCommand, context: CommandContext, done: Done): void {
  addTargetFlags(define(HELP))
    .option('--json', 'print one JSON object')
    .action(async (flags: PsFlags) => {
      done(await ps({ target: resolveTarget(flags, context.defaults), json: flags.json === true }, context));
    });
}

const columns: readonly Column[] = [
  { title: 'KEY' },
  { title: 'USER' },
  { title: 'STATE' },
  { title: 'PID', align: 'right' },
  { title: 'OWNER', align: 'right' },
  { title: 'MEMORY', align: 'right' },
  { title: 'IDLE', align: 'right' },
  { title: 'LAST SAVE', align: 'right' },
  { title: 'CELLS', align: 'right' },
  { title: 'FORK OF' },
];

export async function ps(
  { target, json }: { readonly target: StorageTarget; readonly json: boolean },
  context: CommandContext,
): Promise<number> {
  const { terminal } = context;
  const kernels = await context.backend.listKernels(target);
  if (json) {
    const { dataDir, redis, server } = target;
    const where = server ? { url: server.url } : { dataDir, ...(redis ? { redis: describeTarget(target) } : {}) };
    await terminal.outLines(JSON.stringify({ ...where, kernels }));
    return Exit.ok;
  }
  if (kernels.length === 0) {
    await terminal.errLines(`There are no kernels in ${describeTarget(target)}. Start one with \`cella run -c CODE\`.`);
    return Exit.ok;
  }
  const [titles = '', ...rows] = formatTable(columns, kernels.map(toRow), terminal.columns);
  await terminal.outLines(titles, 'bold');
  await terminal.outLines(rows.join('\n'));
  return Exit.ok;
}

/** A server's storage includes the kernels of its users, which are listed with the user's own key. */
function toRow({ agentKey, state, pid, owner, memoryBytes, idleMs, lastSave, executions, workspaceOf }: KernelInfo) {
  const known = readStorageKey(agentKey);
  return [
    known.agentKey,
    known.user ?? '',
    state,
    pid === undefined ? '' : String(pid),
    owner === undefined ? '' : String(owner.pid),
    memoryBytes === undefined ? '' : formatSize(memoryBytes),
    formatDuration(idleMs),
    lastSave === undefined ? '' : formatAgo(lastSave.at),
    String(executions),
    workspaceOf === undefined ? '' : readStorageKey(workspaceOf).agentKey,
  ];
}

interface Where {
  readonly agentKey: string;
  readonly target: StorageTarget;
}

/** A kernel that never ran anything has nothing to lose. */
export async function hasKernel({ agentKey, target }: Where, backend: Backend): Promise<boolean> {
  const kernel = (await backend.listKernels(target)).find((each) => each.agentKey === agentKey);
  return kernel !== undefined && (kernel.executions > 0 || kernel.lastSave !== undefined);
}

/** Opening a session with a mistyped key would create a kernel. */
export async function requireKernel(where: Where, backend: Backend): Promise<void> {
  if (await hasKernel(where, backend)) return;
  throw new UsageError(
    `There is no kernel ${JSON.stringify(where.agentKey)} in ${describeTarget(where.target)}.`,
    '`cella ps` shows all of them. Choose one with --key, or another storage with --data or --redis.',
  );
}

const HELP = `
Examples:
  $ cella ps
  $ cella ps --json | jq -r '.kernels[] | select(.state == "live") | .agentKey'

KEY is the agent key that owns the kernel. OWNER is the process that has a live kernel. A hibernated
kernel resumes with its variables at the next use.`;
