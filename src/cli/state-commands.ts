/** The commands about what agents keep: `checkpoints`, `fork` and `ps`. */

import type { Command } from 'commander';
import type { SessionRequest, ShelfRequest } from './checkpoints.ts';
import { defineCommand, isMeant } from './define-command.ts';
import * as help from './help.ts';
import { parseText } from './options.ts';
import type { ProgramContext } from './program.ts';
import {
  addAgentKeyFlags,
  addSessionFlags,
  resolveAgentKey,
  type SessionFlags,
  sessionOptions,
} from './session-options.ts';
import { addTargetFlags, formatTargetFlags, resolveTarget } from './target-options.ts';

interface Flags extends SessionFlags {
  readonly json?: boolean;
}

type Done = (exitCode: number) => void;

export function addCheckpoints(program: Command, context: ProgramContext, done: Done): void {
  const group = defineCommand(program, 'checkpoints', 'points that an agent can go back to', help.checkpoints);
  if (!isMeant('checkpoints', context)) return;
  const where = (flags: Flags): ShelfRequest => ({
    agentKey: resolveAgentKey(flags, context.defaults),
    place: resolveTarget(flags, context.defaults),
    json: flags.json === true,
  });
  const whereWithSession = (flags: Flags): SessionRequest => ({
    ...where(flags),
    session: sessionOptions(flags, context.defaults),
  });
  addAgentKeyFlags(defineCommand(group, 'list', "an agent's durable checkpoints and saves, oldest first", help.list))
    .option('--json', 'print them as JSON')
    .action(async (flags: Flags) => done(await (await import('./checkpoints.ts')).list(where(flags), context)));
  addSessionFlags(defineCommand(group, 'create', 'keep the names of an agent as they are now', help.create))
    .argument('<name>', 'what to call it', parseText)
    .option('--json', 'print what was made as JSON')
    .action(async (name: string, flags: Flags) =>
      done(await (await import('./checkpoints.ts')).create(whereWithSession(flags), name, context)),
    );
  addSessionFlags(defineCommand(group, 'restore', 'go back: later names are gone', help.restore))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print what came back as JSON')
    .action(async (wanted: string, flags: Flags) =>
      done(await (await import('./checkpoints.ts')).restore(whereWithSession(flags), wanted, context)),
    );
  addAgentKeyFlags(defineCommand(group, 'show', 'what is in a checkpoint, and what is not', help.show))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print it as JSON')
    .action(async (wanted: string, flags: Flags) =>
      done(await (await import('./checkpoints.ts')).show(where(flags), wanted, context)),
    );
  addAgentKeyFlags(defineCommand(group, 'delete', 'delete a checkpoint', help.remove))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print what was deleted as JSON')
    .action(async (wanted: string, flags: Flags) =>
      done(await (await import('./checkpoints.ts')).remove(where(flags), wanted, context)),
    );
}

const CHECKPOINT = 'its name, its id, or the first characters of its id';

export function addFork(program: Command, context: ProgramContext, done: Done): void {
  addSessionFlags(defineCommand(program, 'fork', 'make another agent with the same names', help.fork))
    .argument('<key>', 'who owns the other kernel', parseText)
    .option('--replace', 'also where there is an agent with that key, whose names are lost')
    .option('--json', 'print what was made as JSON')
    .action(async (key: string, flags: Flags & { replace?: boolean }) => {
      const { fork } = await import('./fork.ts');
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

export function addPs(program: Command, context: ProgramContext, done: Done): void {
  addTargetFlags(defineCommand(program, 'ps', 'list all agents: live ones, and those that sleep', help.ps))
    .option('--json', 'print them as JSON')
    .action(async (flags: Flags) => {
      const { ps } = await import('./agents.ts');
      done(await ps({ place: resolveTarget(flags, context.defaults), json: flags.json === true }, context));
    });
}
