/** One installation, from the requirements to a frozen copy that only needs its place. */

import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { copyFrozen } from './frozen.ts';
import { type Installer, requirementsText } from './installer.ts';
import { distributionsIn, MANIFEST, missingFrom, type SetManifest } from './manifest.ts';
import { runInstaller } from './process.ts';
import { type Audience, aborted } from './shared-work.ts';
import type { PackageSource } from './source.ts';
import { type Failure, failureOf, progressOf } from './words.ts';
import { openWorkplace, type Workplace } from './workplace.ts';

export interface Plan {
  readonly requirements: readonly string[];
  readonly tag: string;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** Where sets are built. */
  readonly folder: string;
  installer(workplace: Workplace, signal: AbortSignal): Promise<Installer>;
}

export interface Ready extends AsyncDisposable {
  readonly kind: 'ready';
  /** Gone when it is disposed of, unless it was renamed. */
  readonly path: string;
}

export type Built = Ready | ({ readonly kind: 'failed' } & Failure);

export async function buildSet(plan: Plan, { signal, progress }: Audience): Promise<Built> {
  if (signal.aborted) throw aborted();
  await using stack = new AsyncDisposableStack();
  const { requirements, source } = plan;
  const workplace = stack.use(await openWorkplace(plan.folder, requirementsText(requirements, source)));
  const installer = await plan.installer(workplace, signal);
  progress(`Installing ${requirements.join(' ')} with ${installer.name}`);
  const outcome = await runInstaller({
    command: installer.command,
    args: installer.args({ ...workplace, source }),
    identity: workplace.identity,
    cwd: workplace.cwd,
    env: workplace.env,
    timeoutMs: plan.timeoutMs,
    signal,
    onLine: (line) => {
      const told = progressOf(line, source);
      if (told !== undefined) progress(told);
    },
  });
  if (signal.aborted) throw aborted();
  const { ending, lines } = outcome;
  if (ending.kind !== 'ended' || ending.code !== 0) return { kind: 'failed', ...failureOf(ending, lines, source) };
  const distributions = await distributionsIn(workplace.target);
  const missing = missingFrom(distributions, requirements);
  if (missing.length > 0) {
    const reason = `${installer.name} reported success, but did not install ${missing.join(', ')}`;
    return { kind: 'failed', reason, scope: 'some' };
  }
  const { tag } = plan;
  const facts = {
    format: 1,
    tag,
    requirements,
    distributions,
    installer: installer.name,
    builtAt: Date.now(),
  } as const;
  try {
    await freeze(workplace, { ...facts, requirements: [...requirements] });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: 'failed', reason: `what was installed cannot be kept: ${why}`, scope: 'some' };
  }
  if (signal.aborted) throw aborted();
  const kept = stack.move();
  return { kind: 'ready', path: workplace.copy, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function freeze({ target, copy }: Workplace, manifest: SetManifest): Promise<void> {
  await copyFrozen(target, copy);
  // An ordinary user can move a folder to another one only while it is writable.
  await chmod(copy, 0o755);
  const path = join(copy, MANIFEST);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  await chmod(path, 0o444);
}
