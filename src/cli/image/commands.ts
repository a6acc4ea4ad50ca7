/** `cella image`: the images that kernels in containers run in. */

import type { Command } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { UsageError } from '../command-errors.ts';
import { CommandOutput } from '../command-output.ts';
import type { ImageRequest } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { addSetting, addSettings, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { collect } from '../session-options.ts';
import { resolveDataDir } from '../target-options.ts';
import { help } from './help.ts';

interface Flags {
  readonly engine?: string;
  readonly json?: boolean;
}

interface BuildFlags extends Flags {
  readonly base?: string;
  readonly name?: string;
  readonly with?: readonly string[];
  /** False where `--no-packages` was given. */
  readonly packages: boolean;
  readonly python?: string;
  readonly data?: string;
}

export function addImage(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.image);
  const report = (flags: Flags) => new CommandOutput(context.terminal, { json: flags.json === true });
  const engineOf = (flags: Flags) => flags.engine ?? context.defaults.engine;
  const summary = "make an image, from this machine's own Python or from another";
  const build = addFlags(defineCommand(group, 'build', summary, help.build))
    .option('--base <image>', 'an image with Python 3.9 or later that is on this machine', parseText)
    .option('--name <name>', 'what to call it (default: cella-python:local)', parseText)
    .option('--with <program>', 'one more program of this machine, by name or path; may be repeated', collect)
    .option('--no-packages', 'leave the packages of this Python out');
  addSetting(build, settings.python, { about: 'the Python to take' });
  addSettings(build, [settings.dataDir, settings.config]).action(async (flags: BuildFlags) => {
    const [{ build }, { runAbortable: stoppable }] = await Promise.all([
      import('./image.ts'),
      import('../command-lifecycle.ts'),
    ]);
    const request = requestOf(flags, context);
    done(await stoppable(context, (signal) => build(request, context, report(flags), signal)));
  });
  addFlags(defineCommand(group, 'list', 'the images that Cella has made here', help.list)).action(
    async (flags: Flags) => {
      const { list } = await import('./image.ts');
      done(await list(engineOf(flags), context, report(flags)));
    },
  );
  addFlags(defineCommand(group, 'remove', 'remove an image that Cella has made', help.remove))
    .argument('<name>', 'its name', parseText)
    .action(async (name: string, flags: Flags) => {
      const { remove } = await import('./image.ts');
      done(await remove(name, engineOf(flags), context, report(flags)));
    });
}

function addFlags(command: Command): Command {
  const about = 'the socket of Docker or Podman';
  return addSetting(command, settings.engine, { about }).option('--json', 'print one JSON object');
}

function requestOf(flags: BuildFlags, { defaults }: ProgramContext): ImageRequest {
  const { base, name, engine = defaults.engine, packages, with: programs = [] } = flags;
  const dataDir = resolveDataDir(flags, defaults);
  const place = { dataDir, ...(name === undefined ? {} : { name }), ...(engine === undefined ? {} : { engine }) };
  if (base === undefined) return { ...place, python: flags.python ?? defaults.python, programs, packages };
  const unused =
    flags.python !== undefined ? '--python' : programs.length > 0 ? '--with' : packages ? '' : '--no-packages';
  if (unused === '') return { ...place, base };
  throw new UsageError(`${unused} means nothing to an image with a base.`, 'Leave one of them out.');
}
