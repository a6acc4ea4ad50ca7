/** Runs programs on the host, for tools with `runs_on: host`. */

import { runProcess } from '../../lib/run-process.ts';
import { messageOf, systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Command, CommandResult, CommandRunner } from '../../protocol/process.ts';
import { killTree, newProcessTag } from '../../sandbox/process-tree.ts';

/** Where host programs run, and the few variables that they get. */
export interface HostCommandOptions {
  readonly cwd: string;
  readonly path: string;
  readonly home: string;
}

export const DEFAULT_HOST_OPTIONS: HostCommandOptions = {
  cwd: '/',
  path: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  home: '/nonexistent',
};

export class HostCommands implements CommandRunner {
  readonly #options: HostCommandOptions;

  constructor(options: Partial<HostCommandOptions> = {}) {
    this.#options = { ...DEFAULT_HOST_OPTIONS, ...options };
  }

  async run(command: Command): Promise<CommandResult> {
    const tag = newProcessTag();
    const options = {
      ...command,
      cwd: this.#options.cwd,
      env: { ...hostEnv(this.#options), ...command.env, ...tag.env },
      killTree: (pid: number) => killTree(pid, tag, { ownGroup: true }),
    };
    return await runProcess(command.argv, options).catch((error) => {
      throw notStartedError(command.argv[0] ?? '', error);
    });
  }
}

export function hostEnv({ path, home }: HostCommandOptions): Record<string, string> {
  return { PATH: path, HOME: home, LANG: 'C.UTF-8' };
}

export function notStartedError(program: string, error: unknown): CellaError {
  const reason = systemCode(error) === 'ENOENT' ? 'the program does not exist on the host' : messageOf(error);
  return new CellaError('TOOL_FAILED', `The program ${JSON.stringify(program)} could not be started: ${reason}.`, {
    cause: error,
  });
}
