/** The command lines of uv and pip, for the Python that runs them or for another one. */

import type { Interpreter } from '../../protocol/interpreter.ts';
import { indexesOf, type PackageSource } from './package-source.ts';
import { fullVersion, implementationOf, isPure, markerEnvironment } from './resolver/python-target.ts';

interface InstallJob {
  readonly requirementsFile: string;
  readonly target: string;
  readonly source: PackageSource;
}

export interface InstallerCommand {
  /** With its version, as the manifest says it. */
  readonly name: string;
  readonly command: string;
  /** uv asks the Python that it installs for, and has threads. */
  readonly startsPrograms: boolean;
  args(job: InstallJob): string[];
}

/** `python` is one that the packages fit. */
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

/** `runner` is how this Python runs pip: its own, or a file of another Python's pip that is made for that. */
export function pip(name: string, python: string, runner: readonly string[]): InstallerCommand {
  const args = (job: InstallJob) => ['-I', ...runner, ...pipArgs(job)];
  return { name, command: python, startsPrograms: false, args };
}

/** `fit`: which wheels are taken, where it is not for the Python that runs it. */
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

/** They hold no password, and may hold blanks that the file would not take. */
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
 * Runs as the installer's user, sets the limits, and becomes the installer. pip is told to take wheels only, but builds
 * what a wheel names by URL all the same: where it cannot fork, nothing is built, and no code of a package runs.
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

/** `python` is one that the installer's user can run. */
export function superviseInstaller(installer: InstallerCommand, python: string): InstallerCommand {
  const { command, startsPrograms } = installer;
  const before = ['-I', '-S', '-c', SUPERVISOR, String(process.pid), startsPrograms ? 'yes' : 'no', command];
  return { ...installer, command: python, args: (job: InstallJob) => [...before, ...installer.args(job)] };
}

/**
 * pip chooses wheels as its options say, but asks its own Python whether a marker such as `python_version < "3.11"` holds
 * and whether a wheel that it has opened runs, and writes that Python's path into scripts. Here it is told what the other
 * one would say. A pip that cannot be told fails here, and is not used.
 */
const TELL = `
import json, sys
target, place = json.loads(sys.argv.pop(1))
version = tuple(int(part) for part in target["python_full_version"].split("."))
if place is not None:
    sys.path.insert(0, place)
import pip
if place is not None:
    sys.path.remove(place)
from pip._vendor.packaging import markers
from pip._internal.cli.main import main
from pip._internal.cli.req_command import RequirementCommand
if int(pip.__version__.split(".")[0]) < 21:
    raise SystemExit("too old to be told several platforms")
own = markers.default_environment
markers.default_environment = lambda: {**own(), **target}
make_resolver = RequirementCommand.make_resolver
if "py_version_info" not in make_resolver.__code__.co_varnames:
    raise SystemExit("this pip cannot be told what it installs for")
def make(*args, **options):
    return make_resolver(*args, **{**options, "py_version_info": version})
RequirementCommand.make_resolver = staticmethod(make)
sys.executable = "/usr/bin/env python3"
`;
const RUN = `${TELL}sys.exit(main())\n`;
const PROBE = `${TELL}print("pip", pip.__version__)\n`;

/** Prints pip's name where it can be told so, and fails where it cannot. `place`: where pip lies, if it needs nothing else. */
export function crossPipProbe(interpreter: Interpreter, place?: string): string[] {
  return pythonArgs(PROBE, interpreter, place);
}

function pythonArgs(program: string, interpreter: Interpreter, place: string | undefined): string[] {
  const flags = place === undefined ? ['-I'] : ['-I', '-S'];
  return [...flags, '-c', program, JSON.stringify([markerEnvironment(interpreter), place ?? null])];
}

export function crossPip(name: string, python: string, interpreter: Interpreter, place?: string): InstallerCommand {
  const { implementation, abi } = implementationOf(interpreter);
  const pure = isPure(interpreter);
  const platforms = pure ? ['any'] : interpreter.platforms;
  const abis = pure || implementation !== 'cp' ? ['none'] : [abi, 'abi3', 'none'];
  const fit = [
    ...['--python-version', fullVersion(interpreter), '--implementation', implementation],
    ...abis.flatMap((one) => ['--abi', one]),
    ...platforms.flatMap((one) => ['--platform', one]),
  ];
  const args = (job: InstallJob) => [...pythonArgs(RUN, interpreter, place), ...pipArgs(job, fit)];
  return { name, command: python, startsPrograms: false, args };
}
