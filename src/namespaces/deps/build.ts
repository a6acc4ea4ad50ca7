/** One installation, from the requirements to a frozen copy that only needs its place. */

import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { copyFrozen } from './frozen.ts';
import { requirementsText } from './installer.ts';
import { distributionsIn, MANIFEST, missingFrom, type SetManifest } from './manifest.ts';
import { nativeIn } from './native.ts';
import { type Audience, aborted } from './shared-work.ts';
import type { PackageSource } from './source.ts';
import type { Failure } from './words.ts';
import type { Worker } from './worker.ts';
import { openWorkplace, type Workplace } from './workplace.ts';

export interface Plan {
  readonly requirements: readonly string[];
  readonly tag: string;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** Where sets are built. */
  readonly folder: string;
  /** Native code cannot run there. */
  readonly pure: boolean;
  worker(workplace: Workplace, signal: AbortSignal): Promise<Worker>;
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
  const worker = await plan.worker(workplace, signal);
  progress(`Installing ${requirements.join(' ')} with ${worker.name}`);
  const filled = await worker.fill(
    { requirements, source, timeoutMs: plan.timeoutMs, workplace },
    { signal, progress },
  );
  if (signal.aborted) throw aborted();
  if (filled.kind === 'failed') return filled;
  const native = plan.pure ? await nativeIn(filled.folder) : undefined;
  if (native !== undefined) return { kind: 'failed', reason: native, scope: 'some' };
  const distributions = await distributionsIn(filled.folder);
  const missing = missingFrom(distributions, requirements);
  if (missing.length > 0) {
    const reason = `${worker.name} reported success, but did not install ${missing.join(', ')}`;
    return { kind: 'failed', reason, scope: 'some' };
  }
  const { tag } = plan;
  const facts = {
    format: 1,
    tag,
    requirements,
    distributions,
    installer: worker.name,
    builtAt: Date.now(),
  } as const;
  try {
    await freeze(filled.folder, workplace.copy, { ...facts, requirements: [...requirements] });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { kind: 'failed', reason: `what was installed cannot be kept: ${why}`, scope: 'some' };
  }
  if (signal.aborted) throw aborted();
  const kept = stack.move();
  return { kind: 'ready', path: workplace.copy, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function freeze(folder: string, copy: string, manifest: SetManifest): Promise<void> {
  await copyFrozen(folder, copy);
  // An ordinary user can move a folder to another one only while it is writable.
  await chmod(copy, 0o755);
  const path = join(copy, MANIFEST);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  await chmod(path, 0o444);
}
