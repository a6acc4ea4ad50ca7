/** `cella fork`: a copy of a kernel under another agent key. */

import { isReservedKey } from '../../protocol/enums.ts';
import type { Checkpoint } from '../../protocol/kernel-state.ts';
import type { SessionApi } from '../../session/api.ts';
import type { OpenOptions, StorageTarget } from '../backend/backend.ts';
import { UsageError } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { chatCommand, formatLost } from '../format.ts';
import { parseText } from '../options.ts';
import { addSessionFlags, resolveAgentKey, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { formatTargetFlags, resolveTarget } from '../target-options.ts';
import { hasKernel, requireKernel } from './ps.ts';

interface ForkFlags extends SessionFlags {
  readonly json?: boolean;
  readonly replace?: boolean;
}

export function addFork(define: DefineCommand, context: CommandContext, done: Done): void {
  addSessionFlags(define(HELP))
    .argument('<key>', 'agent key of the copy', parseText)
    .option('--replace', 'replace the kernel of that key, if there is one; its variables are lost')
    .option('--json', 'print one JSON object')
    .action(async (key: string, flags: ForkFlags) => {
      const request = {
        agentKey: resolveAgentKey(flags, context.defaults),
        fork: key,
        target: resolveTarget(flags, context.defaults),
        targetFlags: formatTargetFlags(flags),
        session: sessionOptions(flags, context.defaults),
        replace: flags.replace === true,
        json: flags.json === true,
      };
      done(await fork(request, context));
    });
}

interface ForkRequest {
  readonly agentKey: string;
  readonly fork: string;
  readonly target: StorageTarget;
  /** The target flags, for a suggested command. */
  readonly targetFlags: string;
  readonly session: OpenOptions;
  readonly replace: boolean;
  readonly json: boolean;
}

export async function fork(request: ForkRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const { agentKey, fork: other, target } = request;
  if (other === agentKey)
    throw new UsageError('A fork needs another agent key.', 'Name another key than that of --key.');
  if (isReservedKey(other)) {
    throw new UsageError(
      `The agent key ${JSON.stringify(other)} begins with ~, which is reserved for a server's users.`,
      'Name another.',
    );
  }
  await requireKernel(request, context.backend);
  if (!request.replace && (await hasKernel({ agentKey: other, target }, context.backend))) {
    throw new UsageError(
      `There is already a kernel ${JSON.stringify(other)}, and the fork would replace its variables.`,
      'Name another key, or add --replace.',
    );
  }
  return await withSession(request.session, context, async (session) => {
    const saved = await forkKernelInto(session, other);
    if (request.json) {
      await terminal.outLines(JSON.stringify({ agentKey, fork: other, ...(saved ? { save: saved } : {}) }));
      return Exit.ok;
    }
    await terminal.outLines(
      `${forkedToText(agentKey, other)} Continue with: ${chatCommand(other, request.targetFlags)}`,
    );
    const lost = lostToText(saved);
    if (lost !== '') await terminal.errLines(lost, 'yellow');
    return Exit.ok;
  });
}

/** Creates, saves and ends the other kernel, so that any process can continue with it. Returns the save. */
export async function forkKernelInto(session: SessionApi, agentKey: string): Promise<Checkpoint | undefined> {
  // The caller has checked that this loses nothing.
  await using other = await session.fork({ agentKey, replace: true });
  await other.save();
  return (await other.checkpoints()).findLast(({ automatic }) => automatic);
}

export function forkedToText(agentKey: string, other: string): string {
  return `${JSON.stringify(other)} has the variables of ${JSON.stringify(agentKey)}, and works in the same folder.`;
}

export function lostToText(save: Checkpoint | undefined): string {
  return formatLost(save ?? {}, 'was not saved').join('\n');
}

const HELP = `
Examples:
  $ cella fork ada-2 --key ada      ada-2 gets the variables of ada
  $ cella run --key ada-2 -c 'x'    and continues on its own

Both kernels work in the folder of the first one. Cella lists variables that it could not
save; the fork does not have them.`;
