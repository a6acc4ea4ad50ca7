/** The host's pip, told to choose wheels for a Python that is not the host's: of a container, or in WebAssembly. */

import type { Interpreter } from '../../protocol/interpreter.ts';
import { type Installer, type Job, pipArgs } from './installer.ts';
import { fullVersion, implementationOf, isPure, markerEnvironment } from './resolver/target.ts';

/**
 * pip chooses wheels as its options say, but asks its own Python whether a marker such as `python_version < "3.11"`
 * holds, and writes that Python's path into scripts. Here it is told what the other one would say.
 */
const PROGRAM = `
import json, sys
target = json.loads(sys.argv.pop(1))
from pip._vendor.packaging import markers
own = markers.default_environment
markers.default_environment = lambda: {**own(), **target}
from pip._internal.cli.main import main
sys.executable = "/usr/bin/env python3"
sys.exit(main())
`;

/** Prints pip's name where it can be told so, and fails where it cannot. */
export const FOREIGN_PROBE = `
import pip
from pip._vendor.packaging import markers
from pip._internal.cli.main import main
markers.default_environment()["python_version"]
if int(pip.__version__.split(".")[0]) < 21:
    raise SystemExit("too old to be told several platforms")
print("pip", pip.__version__)
`;

export function foreignPip(name: string, python: string, interpreter: Interpreter): Installer {
  const { implementation, abi } = implementationOf(interpreter);
  const pure = isPure(interpreter);
  const environment = JSON.stringify(markerEnvironment(interpreter));
  const platforms = pure ? ['any'] : interpreter.platforms;
  const abis = pure || implementation !== 'cp' ? ['none'] : [abi, 'abi3', 'none'];
  const fit = [
    ...['--python-version', fullVersion(interpreter), '--implementation', implementation],
    ...abis.flatMap((one) => ['--abi', one]),
    ...platforms.flatMap((one) => ['--platform', one]),
  ];
  const args = (job: Job) => ['-I', '-c', PROGRAM, environment, ...pipArgs(job, fit)];
  return { name, command: python, startsPrograms: false, args };
}
