/** The Python that packages are chosen for: its values of markers, and the wheels that it accepts. */

import { z } from 'zod';
import type { Interpreter } from '../../../protocol/environment-spec.ts';
import { CellaError } from '../../../protocol/errors.ts';
import type { MarkerEnvironment } from './pep508.ts';

/** An image may report these texts, which become a folder's name and an installer's arguments: they are checked. */
const Words = z.object({
  tag: z
    .string()
    .regex(/^[a-z]{2,20}\d{1,5}[a-z]{0,5}(?:-[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*){1,5}$/)
    .max(120),
  version: z.tuple([z.literal(3), z.int().min(0).max(999)]),
  patch: z.int().min(0).max(999).optional(),
  platforms: z.array(z.string().regex(/^[A-Za-z0-9_]{1,80}$/)).max(500),
});

export function checkInterpreter<T extends Interpreter>(interpreter: T): T {
  const checked = Words.safeParse(interpreter);
  if (checked.success) return interpreter;
  const what = checked.error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new CellaError('PYTHON_NOT_FOUND', `Packages cannot be chosen for this Python: its ${what} is invalid.`);
}

/** The patch release if it is unknown: later than any that a package names. */
const LAST_PATCH = 99;

/** `3.12.4`. */
export function fullVersion({ version, patch = LAST_PATCH }: Interpreter): string {
  return [...version, patch].join('.');
}

/** The known part of the version, for messages. */
export function knownVersion(interpreter: Interpreter): string {
  return interpreter.patch === undefined ? interpreter.version.join('.') : fullVersion(interpreter);
}

export function isPure({ platforms }: Interpreter): boolean {
  return platforms.length === 0;
}

/** `cp` with the ABI, such as `cp313t`. */
export function implementationOf({ tag }: Interpreter): { implementation: string; abi: string } {
  const [abi = ''] = tag.split('-');
  return { implementation: abi.replace(/\d.*$/, ''), abi };
}

const IMPLEMENTATIONS: Readonly<Record<string, readonly [name: string, platform: string]>> = {
  cp: ['cpython', 'CPython'],
  pp: ['pypy', 'PyPy'],
};

export function markerEnvironment(interpreter: Interpreter): MarkerEnvironment {
  const full = fullVersion(interpreter);
  const { implementation } = implementationOf(interpreter);
  const [name, platformName] = IMPLEMENTATIONS[implementation] ?? [implementation, implementation];
  const machine = interpreter.tag.split('-').at(-1) ?? '';
  const [system, platform] = machine.startsWith('wasm') ? ['Emscripten', 'emscripten'] : ['Linux', 'linux'];
  return {
    os_name: 'posix',
    sys_platform: platform,
    platform_system: system,
    platform_machine: machine,
    platform_release: '',
    platform_version: '',
    platform_python_implementation: platformName,
    implementation_name: name,
    implementation_version: full,
    python_version: interpreter.version.join('.'),
    python_full_version: full,
  };
}

/** The tags of compatible wheels, best first, such as `cp312-cp312-manylinux_2_28_x86_64`. */
export function wheelTags(interpreter: Interpreter): string[] {
  const { implementation, abi } = implementationOf(interpreter);
  const [major, minor] = interpreter.version;
  const own = `${implementation}${major}${minor}`;
  const older = Array.from({ length: minor }, (_, back) => minor - 1 - back);
  const python = [`py${major}${minor}`, `py${major}`, ...older.map((one) => `py${major}${one}`)];
  const stable = implementation === 'cp' && abi === own;
  const native = interpreter.platforms.flatMap((platform) => [
    ...(implementation === 'cp' ? [`${own}-${abi}-${platform}`] : []),
    ...(stable ? [`${own}-abi3-${platform}`] : []),
    `${own}-none-${platform}`,
  ]);
  const stableOlder = stable ? older.filter((one) => one >= 2).map((one) => `cp${major}${one}-abi3`) : [];
  const further = [...stableOlder, ...python.map((one) => `${one}-none`)];
  return [
    ...native,
    ...further.flatMap((front) => interpreter.platforms.map((platform) => `${front}-${platform}`)),
    `${own}-none-any`,
    ...python.map((one) => `${one}-none-any`),
  ];
}

/** Ends the sentence that a package has native code. */
export const pureOnly = 'and in-process runs pure Python only: use subprocess or container';
