/** The host's pip, told to choose wheels for a Python that is not the host's: of a container, or in WebAssembly. */

import type { Interpreter } from '../../protocol/interpreter.ts';
import { type Installer, type Job, pipArgs } from './installer.ts';
import { fullVersion, implementationOf, isPure, markerEnvironment } from './resolver/target.ts';

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
export function foreignProbe(interpreter: Interpreter, place?: string): string[] {
  return started(PROBE, interpreter, place);
}

function started(program: string, interpreter: Interpreter, place: string | undefined): string[] {
  const flags = place === undefined ? ['-I'] : ['-I', '-S'];
  return [...flags, '-c', program, JSON.stringify([markerEnvironment(interpreter), place ?? null])];
}

export function foreignPip(name: string, python: string, interpreter: Interpreter, place?: string): Installer {
  const { implementation, abi } = implementationOf(interpreter);
  const pure = isPure(interpreter);
  const platforms = pure ? ['any'] : interpreter.platforms;
  const abis = pure || implementation !== 'cp' ? ['none'] : [abi, 'abi3', 'none'];
  const fit = [
    ...['--python-version', fullVersion(interpreter), '--implementation', implementation],
    ...abis.flatMap((one) => ['--abi', one]),
    ...platforms.flatMap((one) => ['--platform', one]),
  ];
  const args = (job: Job) => [...started(RUN, interpreter, place), ...pipArgs(job, fit)];
  return { name, command: python, startsPrograms: false, args };
}
