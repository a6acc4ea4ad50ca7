/** `cella doctor`: which layers of isolation this machine has, and what to do about those it lacks. */

import { styleText } from 'node:util';

interface FoundLayer {
  readonly name: string;
  readonly available: boolean;
  readonly detail: string;
  readonly fix: string;
}

/** What is around the kernels: who installs packages, and whether the chosen storage keeps what it is given. */
export interface Surroundings {
  readonly installer: { readonly name: string } | { readonly problem: string; readonly fix: string };
  readonly redis?: { readonly where: string; readonly problems: readonly string[]; readonly reachable: boolean };
}

/** What the sandbox found; `main.ts` hands it over. */
export interface Machine {
  readonly python: string;
  readonly executable: string;
  readonly kernel: string;
  readonly root: boolean;
  readonly layers: readonly FoundLayer[];
}

export interface DoctorOptions {
  readonly json: boolean;
  readonly noColor?: boolean;
}

type Output = NodeJS.WritableStream & { readonly isTTY?: boolean };
type Paint = (style: 'green' | 'red' | 'yellow' | 'bold', text: string) => string;

const requiredLayers = {
  root: ['namespaces', 'landlock', 'seccomp', 'uid', 'cgroup', 'rlimits'],
  user: ['namespaces', 'userns', 'landlock', 'seccomp', 'rlimits'],
} as const;

/** Resolves with the exit code: 0 where every required layer is there, else 1. */
export async function doctor(
  machine: Machine & Partial<Surroundings>,
  options: DoctorOptions,
  out: Output,
): Promise<number> {
  const required: readonly string[] = requiredLayers[machine.root ? 'root' : 'user'];
  const layers = machine.layers.map((layer) => ({ ...layer, required: required.includes(layer.name) }));
  const missing = required.filter((name) => !layers.some((layer) => layer.name === name && layer.available));
  const { installer, redis } = machine;
  const ok = missing.length === 0 && redis?.reachable !== false;
  if (options.json) {
    const { python, executable, kernel, root } = machine;
    const told = layers.map(({ name, available, required, detail, fix }) => ({
      name,
      available,
      required,
      detail,
      fix,
    }));
    await write(out, `${JSON.stringify({ python, executable, kernel, root, ok, layers: told, installer, redis })}\n`);
    return ok ? 0 : 1;
  }
  const coloured = out.isTTY === true && !options.noColor;
  const paint: Paint = (style, text) => (coloured ? styleText(style, text, { validateStream: false }) : text);
  const around = aroundOf(machine);
  const width = Math.max(...[...layers, ...around].map(({ name }) => name.length));
  const lines = [
    `Python ${machine.python} (${machine.executable}), Linux ${machine.kernel}, ${machine.root ? 'root' : 'ordinary user'}`,
    '',
    ...layers.flatMap((layer) => describe(layer, width, paint)),
    ...(around.length === 0 ? [] : ['']),
    ...around.flatMap((each) => describe(each, width, paint)),
    '',
    verdict(missing, paint),
  ];
  await write(out, `${lines.join('\n')}\n`);
  return ok ? 0 : 1;
}

function aroundOf({ installer, redis }: Partial<Surroundings>): (FoundLayer & { required: boolean })[] {
  const found = [];
  if (installer && 'name' in installer) {
    found.push({
      name: 'packages',
      available: true,
      required: false,
      detail: `${installer.name} installs them`,
      fix: '',
    });
  } else if (installer) {
    const { problem, fix } = installer;
    found.push({ name: 'packages', available: false, required: false, detail: problem, fix });
  }
  if (!redis) return found;
  const { where, problems, reachable } = redis;
  const well = { name: 'redis', available: true, required: true, detail: `${where} keeps what it is given`, fix: '' };
  if (problems.length === 0) return [...found, well];
  // One that can be used all the same is no reason to fail.
  const bad = problems.map((detail) => ({ name: 'redis', available: false, required: !reachable, detail, fix: '' }));
  return [...found, ...bad];
}

function describe(layer: FoundLayer & { required: boolean }, width: number, paint: Paint): string[] {
  const mark = layer.available ? paint('green', '✓') : paint(layer.required ? 'red' : 'yellow', '✗');
  const note = layer.available || layer.required || layer.name === 'redis' ? '' : ' (not required)';
  const line = `${mark} ${layer.name.padEnd(width)}  ${layer.detail}${note}`;
  return layer.available || layer.fix === '' ? [line] : [line, `${' '.repeat(width + 4)}${layer.fix}`];
}

function verdict(missing: readonly string[], paint: Paint): string {
  if (missing.length === 0) return paint('bold', 'Sandboxed kernels can start here.');
  return paint(
    'bold',
    `Sandboxed kernels cannot start here: ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing.`,
  );
}

function write(out: Output, text: string): Promise<void> {
  return new Promise((resolve, reject) => out.write(text, (error) => (error ? reject(error) : resolve())));
}
