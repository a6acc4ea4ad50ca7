/** Finds the program that installs packages: the first one that the user of the installer can run. */

import { access, constants, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { hostSearchPath, probeArgs, probePython, readProbeAnswer } from '../../interpreter/find-python.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Interpreter } from '../../protocol/interpreter.ts';
import { openInstallWorkspace } from './install-workspace.ts';
import { crossPip, crossPipProbe, type InstallerCommand, pip, superviseInstaller, uv } from './installer-commands.ts';
import { removeTree } from './read-only-tree.ts';
import { type InstallerRun, runInstaller } from './run-installer.ts';
import { installAborted } from './shared-installs.ts';

/** How to run a program as the installer's user. */
export type ProbeContext = Pick<InstallerRun, 'identity' | 'cwd' | 'env' | 'signal'>;

const PROBE_MS = 30_000;
/**
 * Prints pip's name; from pip 22.3 on, the file by which another Python can run it; and whether it has all that it needs in
 * its own folder.
 */
const PIP_PROBE = `
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
  readonly selfContained: boolean;
}

/** A Python of the host. */
type HostPython = Interpreter & { readonly executable: string };

/** Pips that can be told what they install for, each with what that is. To ask one takes as long as a small install. */
const verifiedPips = new Set<string>();

/** uv; else the pip of the kernels' Python; else the pip of another Python, for that one. */
export async function findInstaller(
  wanted: HostPython,
  searchPath: string,
  attempt: ProbeContext,
): Promise<InstallerCommand> {
  const others = await findPrograms('python3', searchPath);
  const python = await reachable(wanted, others, attempt);
  for (const command of await findPrograms('uv', searchPath)) {
    const version = await firstLine(command, ['--version'], attempt);
    if (version !== undefined) return superviseInstaller(uv(version, command, python), python);
  }
  for (const command of [python, ...others]) {
    const found = await pipOf(command, attempt);
    if (found === undefined) continue;
    const { name, runner, selfContained: alone } = found;
    if (alone) return superviseInstaller(pip(name, python, ['-S', runner]), python);
    if (command === python) return superviseInstaller(pip(name, python, ['-m', 'pip']), python);
    if (runner !== '') return superviseInstaller(pip(name, python, [runner]), python);
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
  attempt: ProbeContext,
): Promise<InstallerCommand | undefined> {
  for (const python of await findPrograms('python3', searchPath)) {
    const found = await pipOf(python, attempt);
    if (found === undefined) continue;
    // Its package lies beside the others; only that one is taken from there.
    const pipFolder = found.selfContained ? dirname(dirname(found.runner)) : undefined;
    const asked = JSON.stringify([python, found, wanted]);
    if (!verifiedPips.has(asked)) {
      if ((await firstLine(python, crossPipProbe(wanted, pipFolder), attempt)) === undefined) continue;
      verifiedPips.add(asked);
    }
    return superviseInstaller(crossPip(found.name, python, wanted, pipFolder), python);
  }
  return undefined;
}

/**
 * A Python in root's own folders cannot be run by others, and packages are never installed as root. One with the same
 * tag takes the same wheels.
 */
async function reachable({ executable, tag }: HostPython, others: string[], attempt: ProbeContext): Promise<string> {
  for (const python of [executable, ...others]) {
    const line = await firstLine(python, ['-S', ...probeArgs()], attempt);
    if (readProbeAnswer(line ?? '')?.tag === tag) return python;
  }
  const why = `the user that installs packages (${attempt.identity.uid}) cannot run ${executable}, nor another ${tag}`;
  throw new CellaError('INSTALLER_MISSING', `Packages cannot be installed: ${why}. Install a Python for all users.`);
}

async function pipOf(python: string, attempt: ProbeContext): Promise<FoundPip | undefined> {
  const line = await firstLine(python, ['-I', '-c', PIP_PROBE], attempt);
  const [name, runner, whole] = line?.split('\t') ?? [];
  if (name === undefined || runner === undefined) return undefined;
  return { name, runner, selfContained: runner !== '' && whole === 'whole' };
}

/** Undefined where the program cannot be run, or fails. */
async function firstLine(command: string, args: string[], attempt: ProbeContext): Promise<string | undefined> {
  const { ending, lines } = await runInstaller({ command, args, timeoutMs: PROBE_MS, ...attempt });
  if (ending.kind === 'aborted') throw installAborted();
  return ending.kind === 'ended' && ending.code === 0 ? lines[0] : undefined;
}

async function findPrograms(name: string, searchPath: string): Promise<string[]> {
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

/** With its version: `pip 23.0.1`. INSTALLER_MISSING where there is none. */
export async function installerHere(python: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-installer-'));
  try {
    await using workspace = await openInstallWorkspace(folder, '');
    const { identity, cwd, env } = workspace;
    const attempt = { identity, cwd, env, signal: new AbortController().signal };
    return (await findInstaller(await probePython(python), installerSearchPath(), attempt)).name;
  } finally {
    await removeTree(folder);
  }
}

/** The folders in which installers are looked for. */
export function installerSearchPath(): string {
  // On a root host PATH may name nothing that other users can run.
  return [hostSearchPath(), '/usr/local/bin', '/usr/bin'].join(delimiter);
}
