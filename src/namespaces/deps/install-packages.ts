/** Installs packages into a folder, with a program of the host or with the built-in resolver. */

import { join } from 'node:path';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { InstallWorkspace } from './install-workspace.ts';
import type { InstallerCommand } from './installer-commands.ts';
import type { PackageSource } from './package-source.ts';
import { explainNotFound, installBuiltIn } from './resolver/install-wheels.ts';
import { explainFailure, type InstallFailure, progressLine, runInstaller } from './run-installer.ts';
import { installAborted, type PackageProgress } from './shared-installs.ts';

export interface InstallRequest {
  readonly requirements: readonly string[];
  readonly source: PackageSource;
  readonly timeoutMs: number;
  readonly workspace: InstallWorkspace;
}

export type PackageInstallResult =
  | { readonly kind: 'filled'; readonly folder: string }
  | ({ readonly kind: 'failed' } & InstallFailure);

export interface Installer {
  /** With its version, as the manifest says it. */
  readonly name: string;
  install(work: InstallRequest, audience: PackageProgress): Promise<PackageInstallResult>;
}

/** `foreign`: the Python that it installs for, where that is not the host's. */
export function programInstaller(installer: InstallerCommand, foreign?: Interpreter): Installer {
  return {
    name: installer.name,
    install: async ({ workspace, source, timeoutMs }, { signal, progress }) => {
      const { identity, cwd, env, target: folder } = workspace;
      const { ending, lines } = await runInstaller({
        command: installer.command,
        args: installer.args({ ...workspace, source }),
        identity,
        cwd,
        env,
        timeoutMs,
        signal,
        onLine: (line) => {
          const text = progressLine(line, source);
          if (text !== undefined) progress(text);
        },
      });
      if (signal.aborted) throw installAborted();
      if (ending.kind === 'ended' && ending.code === 0) return { kind: 'filled', folder };
      const failure = explainFailure(ending, lines, source);
      const real = foreign && (await explainNotFound(lines, foreign, source, signal));
      return { kind: 'failed', ...(real ?? failure) };
    },
  };
}

/** Packages are unpacked where no other user can reach them. */
export function builtInInstaller(interpreter: Interpreter): Installer {
  return {
    name: 'cella',
    install: async ({ workspace, ...work }, audience) => {
      const failure = await installBuiltIn({ ...work, interpreter, folder: workspace.inside }, audience);
      if (failure) return { kind: 'failed', ...failure };
      return { kind: 'filled', folder: join(workspace.inside, 'target') };
    },
  };
}
