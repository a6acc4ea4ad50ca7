/** Where a command line says that code runs: in a sandboxed process, in a container, or in WebAssembly in this process. */

import type { Command } from 'commander';
import { executorKinds } from '../protocol/enums.ts';
import { settings } from '../settings/settings-table.ts';
import type { ExecutorChoice, ExecutorOptions } from './context.ts';
import { UsageError } from './exit.ts';
import { addSettings } from './setting-flags.ts';

export interface ExecutorFlags {
  readonly executor?: ExecutorChoice;
  readonly image?: string;
  readonly engine?: string;
}

/** What stands in for a flag that is not given. */
export interface ExecutorDefaults {
  /** Any text: a variable may hold it. */
  readonly executor?: string | undefined;
  readonly image?: string | undefined;
  readonly engine?: string | undefined;
}

const GROUP = 'Executor:';
const choices: readonly ExecutorChoice[] = ['auto', ...executorKinds];

export function addExecutorFlags(command: Command): Command {
  return addSettings(command, [settings.executor, settings.image, settings.engine], { group: GROUP });
}

/** A flag wins over a variable. Variables about containers mean nothing to other executors; flags are a mistake there. */
export function executorOptionsOf(flags: ExecutorFlags, defaults: ExecutorDefaults): ExecutorOptions {
  const executor = flags.executor ?? executorNamed(defaults.executor);
  if (executor !== 'container') {
    const unused = flags.image !== undefined ? '--image' : flags.engine !== undefined ? '--engine' : undefined;
    if (unused === undefined) return executor === undefined ? {} : { executor };
    throw new UsageError(
      `${unused} means nothing to the executor ${executor ?? 'auto'}.`,
      'Leave it out, or add --executor container.',
    );
  }
  const image = flags.image ?? defaults.image;
  const engine = flags.engine ?? defaults.engine;
  return { executor, ...(image === undefined ? {} : { image }), ...(engine === undefined ? {} : { engine }) };
}

/** Where it does, the variable that names a Python of this machine means nothing. */
export function bringsPython({ executor }: ExecutorOptions): boolean {
  return executor === 'container' || executor === 'in-process';
}

function executorNamed(name: string | undefined): ExecutorChoice | undefined {
  const found = choices.find((each) => each === name);
  if (found !== undefined || name === undefined) return found;
  throw new UsageError(
    `CELLA_EXECUTOR is ${JSON.stringify(name)}, which is no executor.`,
    `Set it to one of ${choices.join(', ')}, or choose with --executor.`,
  );
}
