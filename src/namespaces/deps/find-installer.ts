/** Which program installs packages here: the first one that the installer's user can run. */

import { access, constants } from 'node:fs/promises';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { type HostInterpreter, probeArgs, readProbeAnswer } from '../../interpreter/find-python.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { foreignPip, foreignProbe } from './foreign-pip.ts';
import { type Installer, pip, uv } from './installer.ts';
import { type InstallerRun, runInstaller } from './process.ts';
import { aborted } from './shared-work.ts';
import { tied } from './tied.ts';

/** How to run a program as the installer's user. */
export type Attempt = Pick<InstallerRun, 'identity' | 'cwd' | 'env' | 'signal'>;

const PROBE_MS = 30_000;
/**
 * Prints pip's name; from pip 22.3 on, the file by which another Python can run it; and whether it has all that it needs in
 * its own folder.
 */
const PIP = `
import os, pip
from pip import _vendor
runner = os.path.join(os.path.dirname(pip.__file__), "__pip-runner__.py")
whole = not getattr(_vendor, "DEBUNDLED", True)
print("pip", pip.__version__ + "\\t" + (runner if os.path.exists(runner) else "") + "\\t" + ("whole" if whole else ""))
`;

interface FoundPip {
  /** With its version. */
  readonly name: string;
  readonly runner: string;
  /**
   * It runs without the other packages of its Python: none of their code runs with it, and it does not look through all of
   * them, which takes it longer than to install a few.
   */
  readonly alone: boolean;
}

/** Pips that can be told what they install for, each with what that is. To ask one takes as long as a small install. */
const told = new Set<string>();

/** uv; else the pip of the kernels' Python; else the pip of another Python, for that one. */
export async function findInstaller(wanted: HostInterpreter, searchPath: string, attempt: Attempt): Promise<Installer> {
  const others = await programs('python3', searchPath);
  const python = await reachable(wanted, others, attempt);
  for (const command of await programs('uv', searchPath)) {
    const version = await firstLine(command, ['--version'], attempt);
    if (version !== undefined) return tied(uv(version, command, python), python);
  }
  for (const command of [python, ...others]) {
    const found = await pipOf(command, attempt);
    if (found === undefined) continue;
    const { name, runner, alone } = found;
    if (alone) return tied(pip(name, python, ['-S', runner]), python);
    if (command === python) return tied(pip(name, python, ['-m', 'pip']), python);
    if (runner !== '') return tied(pip(name, python, [runner]), python);
  }
  throw new CellaError('INSTALLER_MISSING', `There is no uv on PATH, and no pip for ${wanted.executable}.`);
}

/**
 * For a Python that is not the host's: the pip of any Python here, or nothing. uv is not asked: it names a platform by a
 * list of its own, in which neither the libc of an image nor pure Python can be said.
 */
export async function findForeignInstaller(
  wanted: Interpreter,
  searchPath: string,
  attempt: Attempt,
): Promise<Installer | undefined> {
  for (const python of await programs('python3', searchPath)) {
    const found = await pipOf(python, attempt);
    if (found === undefined) continue;
    // Its package lies beside the others; only that one is taken from there.
    const place = found.alone ? dirname(dirname(found.runner)) : undefined;
    const asked = JSON.stringify([python, found, wanted]);
    if (!told.has(asked)) {
      if ((await firstLine(python, foreignProbe(wanted, place), attempt)) === undefined) continue;
      told.add(asked);
    }
    return tied(foreignPip(found.name, python, wanted, place), python);
  }
  return undefined;
}

/**
 * A Python in root's own folders cannot be run by others, and packages are never installed as root. One with the same
 * tag takes the same wheels.
 */
async function reachable({ executable, tag }: HostInterpreter, others: string[], attempt: Attempt): Promise<string> {
  for (const python of [executable, ...others]) {
    const line = await firstLine(python, probeArgs(), attempt);
    if (readProbeAnswer(line ?? '')?.tag === tag) return python;
  }
  const why = `the user that installs packages (${attempt.identity.uid}) cannot run ${executable}, nor another ${tag}`;
  throw new CellaError('INSTALLER_MISSING', `Packages cannot be installed: ${why}. Install a Python for all users.`);
}

async function pipOf(python: string, attempt: Attempt): Promise<FoundPip | undefined> {
  const line = await firstLine(python, ['-I', '-c', PIP], attempt);
  const [name, runner, whole] = line?.split('\t') ?? [];
  if (name === undefined || runner === undefined) return undefined;
  return { name, runner, alone: runner !== '' && whole === 'whole' };
}

/** Undefined where the program cannot be run, or fails. */
async function firstLine(command: string, args: string[], attempt: Attempt): Promise<string | undefined> {
  const { ending, lines } = await runInstaller({ command, args, timeoutMs: PROBE_MS, ...attempt });
  if (ending.kind === 'aborted') throw aborted();
  return ending.kind === 'ended' && ending.code === 0 ? lines[0] : undefined;
}

async function programs(name: string, searchPath: string): Promise<string[]> {
  // A relative entry would name a program in whatever folder this process works in.
  const paths = searchPath.split(delimiter).filter((folder) => isAbsolute(folder));
  const found = paths.map(async (folder) => {
    const path = join(folder, name);
    return await access(path, constants.X_OK).then(
      () => [path],
      () => [],
    );
  });
  return (await Promise.all(found)).flat();
}
