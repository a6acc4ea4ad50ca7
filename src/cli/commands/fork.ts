/** `cella fork`: a copy of a kernel under another agent key. */

import { isReservedKey } from '../../protocol/enums.ts';
import type { Checkpoint } from '../../protocol/kernel-state.ts';
import type { SessionApi } from '../../session/api.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import type { CommandContext, OpenOptions, StorageAccess, StorageTarget } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { chatCommand, escapeControls } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addSessionFlags, resolveAgentKey, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { formatTargetFlags, resolveTarget } from '../target-options.ts';
import { hasAgent, requireAgent } from './ps.ts';

interface ForkFlags extends SessionFlags {
  readonly json?: boolean;
  readonly replace?: boolean;
}

export function addFork(define: DefineCommand, context: ProgramContext, done: Done): void {
  addSessionFlags(define(HELP))
    .argument('<key>', 'agent key of the copy', parseText)
    .option('--replace', 'replace the kernel of that key, if there is one; its variables are lost')
    .option('--json', 'print one JSON object')
    .action(async (key: string, flags: ForkFlags) => {
      const request = {
        agentKey: resolveAgentKey(flags, context.defaults),
        fork: key,
        place: resolveTarget(flags, context.defaults),
        placeFlags: formatTargetFlags(flags),
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
  readonly place: StorageTarget;
  /** The flags that say so, to be typed again. */
  readonly placeFlags: string;
  readonly session: OpenOptions;
  readonly replace: boolean;
  readonly json: boolean;
}

export async function fork(request: ForkRequest, context: CommandContext & StorageAccess): Promise<number> {
  const { terminal } = context;
  const { agentKey, fork: other, place } = request;
  if (other === agentKey)
    throw new UsageError('A fork needs another agent key.', 'Name another key than that of --agent.');
  if (isReservedKey(other)) {
    throw new UsageError(
      `The agent key ${JSON.stringify(other)} begins with ~, which is reserved for a server's users.`,
      'Name another.',
    );
  }
  await requireAgent(request, context);
  if (!request.replace && (await hasAgent({ agentKey: other, place }, context))) {
    throw new UsageError(
      `There is already a kernel ${JSON.stringify(other)}, and the fork would replace its variables.`,
      'Name another key, or add --replace.',
    );
  }
  return await withSession(request.session, context, async (session) => {
    const saved = await forkInto(session, other);
    if (request.json) {
      await terminal.outLines(JSON.stringify({ agentKey, fork: other, ...(saved ? { save: saved } : {}) }));
      return Exit.ok;
    }
    await terminal.outLines(
      `${forkedToText(agentKey, other)} Continue with: ${chatCommand(other, request.placeFlags)}`,
    );
    const lost = lostToText(saved);
    if (lost !== '') await terminal.errLines(lost, 'yellow');
    return Exit.ok;
  });
}

/** Creates, saves and ends the other kernel, so that any process can continue with it. Gives the save. */
export async function forkInto(session: SessionApi, agentKey: string): Promise<Checkpoint | undefined> {
  // The caller has checked that nothing is lost by it.
  await using other = await session.fork({ agentKey, replace: true });
  await other.save();
  return (await other.checkpoints()).findLast(({ automatic }) => automatic);
}

export function forkedToText(agentKey: string, other: string): string {
  return `${JSON.stringify(other)} has the variables of ${JSON.stringify(agentKey)}, and works in the same folder.`;
}

export function lostToText(save: Checkpoint | undefined): string {
  const lost = save?.lost ?? [];
  return lost
    .map(({ name, reason }) => `cella: ${escapeControls(name)} is not in it: ${escapeControls(reason)}`)
    .join('\n');
}

const HELP = `
Examples:
  $ cella fork ada-2 --agent ada      ada-2 gets the variables of ada
  $ cella run --agent ada-2 -c 'x'    and continues on its own

Both work in the same folder, that of the first. Variables that cannot be saved are not in the fork; they
are listed.`;
