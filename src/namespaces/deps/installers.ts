/** The programs that install packages, uv and pip: which one there is, and its command lines for this or another Python. */

import { access, constants, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, isAbsolute, join } from 'node:path';
import { removeFolder } from '../../environments/files/remove-tree.ts';
import { hostSearchPath, probeArgs, probePython, readProbeAnswer } from '../../interpreter/find-python.ts';
import type { Interpreter } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import { openInstallWorkspace } from './install-workspace.ts';
import { indexesOf, type PackageSource } from './package-source.ts';
import { fullVersion, implementationOf, isPure, markerEnvironment } from './resolver/python-target.ts';
import { type InstallerRun, runInstaller } from './run-installer.ts';
import { installAborted } from './shared-installs.ts';

interface InstallJob {
  readonly requirementsFile: string;
  readonly target: string;
  readonly source: PackageSource;
}

export interface InstallerCommand {
  /** Name and version for the manifest. */
  readonly name: string;
  readonly command: string;
  /** Whether it starts other processes and threads: uv runs the Python that it installs for. */
  readonly startsPrograms: boolean;
  args(job: InstallJob): string[];
}

/** `python`: one that the packages are compatible with. */
export function uv(name: string, command: string, python: string): InstallerCommand {
  const args = ({ requirementsFile, target, source }: InstallJob) => [
    ...['pip', 'install', '--no-config', '--no-cache', '--no-progress', '--color', 'never'],
    ...['--target', target, '--python', python, '--no-python-downloads'],
    ...['--only-binary', ':all:', '--link-mode', 'copy'],
    ...places(source),
    ...['-r', requirementsFile],
  ];
  return { name, command, startsPrograms: true, args };
}

/** `runner`: how this Python runs pip: its own pip, or the runner file of another Python's pip. */
export function pip(name: string, python: string, runner: readonly string[]): InstallerCommand {
  const args = (job: InstallJob) => ['-I', ...runner, ...pipArgs(job)];
  return { name, command: python, startsPrograms: false, args };
}

/** `fit`: which wheels to take, if they are not for the Python that runs pip. */
function pipArgs({ requirementsFile, target, source }: InstallJob, fit: readonly string[] = []): string[] {
  return [
    ...['install', '--isolated', '--no-input', '--disable-pip-version-check', '--no-cache-dir', '--no-color'],
    ...['--progress-bar', 'off', '--retries', '2', '--timeout', '15', '--no-warn-script-location'],
    ...['--target', target, '--only-binary', ':all:', '--no-compile'],
    ...fit,
    ...places(source),
    // The operator chose http, so pip need not warn.
    ...indexesOf(source).flatMap(({ protocol, host }) => (protocol === 'http:' ? ['--trusted-host', host] : [])),
    ...['-r', requirementsFile],
  ];
}

/** Folders contain no password, and may contain spaces, which the file does not support. */
function places({ noIndex, wheelFolders }: PackageSource): string[] {
  return [...(noIndex ? ['--no-index'] : []), ...wheelFolders.flatMap((folder) => ['--find-links', folder])];
}

/** Readable only by the installer: an index may have a password. */
export function requirementsText(requirements: readonly string[], source: PackageSource): string {
  const lines = [
    ...(source.index === undefined ? [] : [`--index-url ${source.index}`]),
    ...source.extraIndexes.map((index) => `--extra-index-url ${index}`),
    ...requirements,
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/**
 * Runs as the installer's user, sets the limits, and becomes the installer. Even with wheels only, pip builds a source that
 * a wheel requires by URL. As it cannot fork, it builds nothing, and no code of a package runs.
 */
const SUPERVISOR = `
import ctypes, os, resource, signal, sys
host, starts_programs, program = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != host:
        sys.exit("the host has ended")
if starts_programs == "no":
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.execv(program, sys.argv[3:])
`;

/** `python`: one that the installer's user can run. */
function superviseInstaller(installer: InstallerCommand, python: string): InstallerCommand {
  const { command, startsPrograms } = installer;
  const before = ['-I', '-S', '-c', SUPERVISOR, String(process.pid), startsPrograms ? 'yes' : 'no', command];
  return { ...installer, command: python, args: (job: InstallJob) => [...before, ...installer.args(job)] };
}

/**
 * pip chooses wheels by its options, but evaluates markers such as `python_version < "3.11"` and the compatibility of a
 * wheel for its own Python, and writes that Python's path into scripts. This patches pip with the facts of the other Python.
 * A pip that cannot be patched fails here, and is not used.
 */
const TELL = `
import json, sys
target, pipFolder = json.loads(sys.argv.pop(1))
version = tuple(int(part) for part in target["python_full_version"].split("."))
if pipFolder is not None:
    sys.path.insert(0, pipFolder)
import pip
if pipFolder is not None:
    sys.path.remove(pipFolder)
from pip._vendor.packaging import markers
from pip._internal.cli.main import main
from pip._internal.cli.req_command import RequirementCommand
if int(pip.__version__.split(".")[0]) < 21:
    raise SystemExit("too old to take several platforms")
own = markers.default_environment
markers.default_environment = lambda: {**own(), **target}
make_resolver = RequirementCommand.make_resolver
if "py_version_info" not in make_resolver.__code__.co_varnames:
    raise SystemExit("this pip cannot install for another interpreter")
def make(*args, **options):
    return make_resolver(*args, **{**options, "py_version_info": version})
RequirementCommand.make_resolver = staticmethod(make)
sys.executable = "/usr/bin/env python3"
`;
const RUN = `${TELL}sys.exit(main())\n`;
const PROBE = `${TELL}print("pip", pip.__version__)\n`;

/** Prints pip's name if it supports this, else fails. `pipFolder`: pip's folder, if pip needs no other package. */
function crossPipProbe(interpreter: Interpreter, pipFolder?: string): string[] {
  return pythonArgs(PROBE, interpreter, pipFolder);
}

function pythonArgs(program: string, interpreter: Interpreter, pipFolder: string | undefined): string[] {
  const flags = pipFolder === undefined ? ['-I'] : ['-I', '-S'];
  return [...flags, '-c', program, JSON.stringify([markerEnvironment(interpreter), pipFolder ?? null])];
}

function crossPip(name: string, python: string, interpreter: Interpreter, pipFolder?: string): InstallerCommand {
  const { implementation, abi } = implementationOf(interpreter);
  const pure = isPure(interpreter);
  const platforms = pure ? ['any'] : interpreter.platforms;
  const abis = pure || implementation !== 'cp' ? ['none'] : [abi, 'abi3', 'none'];
  const fit = [
    ...['--python-version', fullVersion(interpreter), '--implementation', implementation],
    ...abis.flatMap((one) => ['--abi', one]),
    ...platforms.flatMap((one) => ['--platform', one]),
  ];
  const args = (job: InstallJob) => [...pythonArgs(RUN, interpreter, pipFolder), ...pipArgs(job, fit)];
  return { name, command: python, startsPrograms: false, args };
}

/** How to run a program as the installer's user. */
export type ProbeContext = Pick<InstallerRun, 'identity' | 'cwd' | 'env' | 'signal'>;

const PROBE_MS = 30_000;
/**
 * Prints pip's name; from pip 22.3 on, the file with which another Python can run it; and whether its own folder has
 * everything that it needs.
 */
const PIP_PROBE = `
import os, pip
from pip import _vendor
runner = os.path.join(os.path.dirname(pip.__file__), "__pip-runner__.py")
whole = not getattr(_vendor, "DEBUNDLED", True)
print("pip", pip.__version__ + "\\t" + (runner if os.path.exists(runner) else "") + "\\t" + ("whole" if whole else ""))
`;

interface FoundPip {
  /** Its name and version. */
  readonly name: string;
  readonly runner: string;
  /**
   * Whether it runs without the other packages of its Python. None of their code runs then, and pip does not scan them,
   * which takes longer than installing a few packages.
   */
  readonly selfContained: boolean;
}

/** A Python on the host. */
type HostPython = Interpreter & { readonly executable: string };

/** Pips that can install for another Python, each with that Python. Cached, as a check takes as long as a small install. */
const verifiedPips = new Set<string>();

/** Returns uv, else the pip of the kernels' Python, else the pip of another Python, which installs for the kernels' Python. */
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
 * For a Python that is not the host's: the pip of any Python here, or nothing. Not uv: its fixed list of platforms does not
 * cover every libc of an image, and cannot express pure Python.
 */
export async function findForeignInstaller(
  wanted: Interpreter,
  searchPath: string,
  attempt: ProbeContext,
): Promise<InstallerCommand | undefined> {
  for (const python of await findPrograms('python3', searchPath)) {
    const found = await pipOf(python, attempt);
    if (found === undefined) continue;
    // Only pip itself is taken from the folder with the packages of its Python.
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
 * Other users cannot run a Python in root's own folders, and packages are never installed as root. A Python with the same
 * tag accepts the same wheels.
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

/** The output of a program, or undefined if it cannot be run or fails. */
async function firstLine(command: string, args: string[], attempt: ProbeContext): Promise<string | undefined> {
  const { ending, lines } = await runInstaller({ command, args, timeoutMs: PROBE_MS, ...attempt });
  if (ending.kind === 'aborted') throw installAborted();
  return ending.kind === 'ended' && ending.code === 0 ? lines[0] : undefined;
}

async function findPrograms(name: string, searchPath: string): Promise<string[]> {
  // A relative entry would find programs in the working folder of this process.
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

/** Name and version, such as `pip 23.0.1`. Throws INSTALLER_MISSING if there is none. */
export async function installerHere(python: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-installer-'));
  try {
    await using workspace = await openInstallWorkspace(folder, '');
    const { identity, cwd, env } = workspace;
    const attempt = { identity, cwd, env, signal: new AbortController().signal };
    return (await findInstaller(await probePython(python), installerSearchPath(), attempt)).name;
  } finally {
    await removeFolder(folder);
  }
}

/** The folders that are searched for installers. */
export function installerSearchPath(): string {
  // On a root host, PATH may contain no program that other users can run.
  return [hostSearchPath(), '/usr/local/bin', '/usr/bin'].join(delimiter);
}
