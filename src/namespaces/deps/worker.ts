/** Who fills a folder with packages: a program of the host's, or the resolver in here. */

import { join } from 'node:path';
import type { Interpreter } from '../../protocol/interpreter.ts';
import type { Installer } from './installer.ts';
import { runInstaller } from './process.ts';
import { installByOwn } from './resolver/install.ts';
import { realReason } from './resolver/real-reason.ts';
import { type Audience, aborted } from './shared-work.ts';
import type { PackageSource } from './source.ts';
import { type Failure, failureOf, progressOf } from './words.ts';
import type { Workplace } from './workplace.ts';

export interface Work {
  readonly requirements: readonly string[];
  readonly source: PackageSource;
  readonly timeoutMs: number;
  readonly workplace: Workplace;
}

export type Filled = { readonly kind: 'filled'; readonly folder: string } | ({ readonly kind: 'failed' } & Failure);

export interface Worker {
  /** With its version, as the manifest says it. */
  readonly name: string;
  fill(work: Work, audience: Audience): Promise<Filled>;
}

/** `foreign`: the Python that it installs for, where that is not the host's. */
export function programWorker(installer: Installer, foreign?: Interpreter): Worker {
  return {
    name: installer.name,
    fill: async ({ workplace, source, timeoutMs }, { signal, progress }) => {
      const { identity, cwd, env, target: folder } = workplace;
      const { ending, lines } = await runInstaller({
        command: installer.command,
        args: installer.args({ ...workplace, source }),
        identity,
        cwd,
        env,
        timeoutMs,
        signal,
        onLine: (line) => {
          const told = progressOf(line, source);
          if (told !== undefined) progress(told);
        },
      });
      if (signal.aborted) throw aborted();
      if (ending.kind === 'ended' && ending.code === 0) return { kind: 'filled', folder };
      const failure = failureOf(ending, lines, source);
      const real = foreign && (await realReason(lines, foreign, source, signal));
      return { kind: 'failed', ...(real ?? failure) };
    },
  };
}

/** Packages are unpacked where no other user can reach them. */
export function ownWorker(interpreter: Interpreter): Worker {
  return {
    name: 'cella',
    fill: async ({ workplace, ...work }, audience) => {
      const failure = await installByOwn({ ...work, interpreter, folder: workplace.inside }, audience);
      if (failure) return { kind: 'failed', ...failure };
      return { kind: 'filled', folder: join(workplace.inside, 'target') };
    },
  };
}
