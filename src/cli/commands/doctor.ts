/** `cella doctor`: whether this machine can isolate code, and what is missing. */

import { styleText } from 'node:util';
import { resolveStorage, type StorageFlags } from '../../settings/process-config.ts';
import { resolveSetting } from '../../settings/setting.ts';
import { serverSettings, settings } from '../../settings/settings-table.ts';
import { describeUnknownVariable, type UnknownVariable } from '../../settings/unknown-variables.ts';
import { wrapLines } from '../command-output.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { addSetting } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addStorageFlags } from '../target-options.ts';

export function addDoctor(define: DefineCommand, context: ProgramContext, done: Done): void {
  const command = addStorageFlags(define(HELP));
  addSetting(command, settings.python, { about: 'Python to check' });
  addSetting(command, settings.engine, { about: 'container engine to check' });
  addSetting(command, settings.image, { about: 'image to check' })
    .option('--json', 'print one JSON object')
    .action(async (flags: StorageFlags & { python?: string; engine?: string; image?: string; json?: true }) => {
      const { startWarnings } = await import('./serve-startup.ts');
      const python = flags.python ?? context.defaults.python;
      const { stdout, noColor } = context.terminal;
      const place = resolveStorage(flags, context.defaults);
      const engine = flags.engine ?? context.defaults.engine;
      const image = flags.image ?? context.defaults.image;
      done(
        await doctor(
          {
            ...(await context.detect({ python, place, engine, image })),
            strayVariables: context.defaults.strayVariables,
            warnings: startWarnings(resolveSetting(serverSettings.membersMay, undefined, context.defaults.variables)),
          },
          { json: flags.json === true, noColor },
          stdout,
        ),
      );
    });
}

interface DoctorCheck {
  readonly name: string;
  readonly available: boolean;
  readonly detail: string;
  readonly fix: string;
}

/** Another executor than the one whose layers are told. */
export type FoundExecutor = DoctorCheck;

/** What is around the kernels: the other executors, who installs packages, and whether the chosen storage keeps what it is given. */
export interface DoctorSurroundings {
  readonly executors: readonly FoundExecutor[];
  readonly installer?: { readonly name: string } | { readonly problem: string; readonly fix: string } | undefined;
  /** Variables that look like settings and are none. */
  readonly strayVariables?: readonly UnknownVariable[] | undefined;
  /** What a server with the settings of this environment would let others do. */
  readonly warnings?: readonly string[] | undefined;
  readonly redis?: { readonly where: string; readonly problems: readonly string[]; readonly reachable: boolean };
}

/** What the sandbox found; `main.ts` hands it over. Without a Python there is nothing to try, and no layer. */
export interface DoctorReport {
  readonly python?: string;
  readonly executable?: string;
  readonly kernel?: string;
  /** Why there is no Python, and what to do about it. */
  readonly problem?: string;
  readonly fix?: string;
  readonly root: boolean;
  readonly layers: readonly DoctorCheck[];
}

interface DoctorOptions {
  readonly json: boolean;
  readonly noColor?: boolean;
}

type ReportStream = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };
type Paint = (style: 'green' | 'red' | 'yellow' | 'bold', text: string) => string;

const requiredLayers = {
  root: ['namespaces', 'landlock', 'seccomp', 'uid', 'cgroup', 'rlimits'],
  user: ['namespaces', 'userns', 'landlock', 'seccomp', 'rlimits'],
} as const;

/** Resolves with the exit code: 0 where every required layer is there, else 1. */
export async function doctor(
  machine: DoctorReport & Partial<DoctorSurroundings>,
  options: DoctorOptions,
  out: ReportStream,
): Promise<number> {
  const required: readonly string[] = requiredLayers[machine.root ? 'root' : 'user'];
  const layers = machine.layers.map((layer) => ({ ...layer, required: required.includes(layer.name) }));
  const missing = required.filter((name) => !layers.some((layer) => layer.name === name && layer.available));
  const { installer, redis, strayVariables, warnings } = machine;
  const executors = machine.executors && [subprocessOf(machine, missing), ...machine.executors];
  const ok = missing.length === 0 && redis?.reachable !== false;
  if (options.json) {
    const { python, executable, kernel, root, problem } = machine;
    const told = layers.map(({ name, available, required, detail, fix }) => ({
      name,
      available,
      required,
      detail,
      fix,
    }));
    const report = {
      python,
      executable,
      kernel,
      root,
      ok,
      problem,
      layers: told,
      executors,
      installer,
      redis,
      strayVariables,
      warnings,
    };
    await write(out, `${JSON.stringify(report)}\n`);
    return ok ? 0 : 1;
  }
  const coloured = out.isTTY === true && !options.noColor;
  const paint: Paint = (style, text) => (coloured ? styleText(style, text, { validateStream: false }) : text);
  const around = checkSurroundings(machine);
  const choices = (executors ?? []).map((each) => ({ ...each, required: each.name === 'subprocess' }));
  const width = Math.max(...[...layers, ...choices, ...around].map(({ name }) => name.length));
  const parts = [layers, choices, around].filter((part) => part.length > 0);
  // A terminal that nobody has told its size says 0; a program takes lines of any length.
  const screen = out.isTTY ? out.columns || 80 : Infinity;
  const flow = (text: string) => wrapLines(text, { width: screen, indent: 2 });
  const noted = [...(strayVariables ?? []).map(describeUnknownVariable), ...(warnings ?? [])].flatMap(flow);
  const lines = [
    ...flow(headOf(machine)),
    ...parts.flatMap((part) => ['', ...part.flatMap((each) => describe(each, { width, screen }, paint))]),
    ...(noted.length > 0 ? ['', ...noted.map((line) => paint('yellow', line))] : []),
    '',
    ...flow(describeVerdict(machine.problem === undefined ? missing : ['Python'])).map((line) => paint('bold', line)),
  ];
  await write(out, `${lines.join('\n')}\n`);
  return ok ? 0 : 1;
}

function headOf({ python, executable, kernel, root, problem }: DoctorReport): string {
  if (problem !== undefined) return problem;
  return `Python ${python} (${executable}), Linux ${kernel}, ${root ? 'root' : 'ordinary user'}`;
}

function subprocessOf({ python, problem, fix = '' }: DoctorReport, missing: readonly string[]): FoundExecutor {
  const name = 'subprocess';
  if (problem !== undefined) return { name, available: false, detail: 'there is no Python for it', fix };
  if (missing.length === 0) return { name, available: true, detail: `sandboxed processes, Python ${python}`, fix: '' };
  return { name, available: false, detail: `needs what is missing above: ${missing.join(', ')}`, fix: '' };
}

function checkSurroundings({ installer, redis }: Partial<DoctorSurroundings>): (DoctorCheck & { required: boolean })[] {
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

interface Room {
  /** Of the longest name. */
  readonly width: number;
  readonly screen: number;
}

function describe(layer: DoctorCheck & { required: boolean }, { width, screen }: Room, paint: Paint): string[] {
  const mark = layer.available ? paint('green', '✓') : paint(layer.required ? 'red' : 'yellow', '✗');
  const note = layer.available || layer.required || layer.name === 'redis' ? '' : ' (not required)';
  const indent = width + 4;
  const flow = (text: string) => wrapLines(text, { width: screen, indent });
  const lines = flow(`${mark} ${layer.name.padEnd(width)}  ${layer.detail}${note}`);
  return layer.available || layer.fix === '' ? lines : [...lines, ...flow(`${' '.repeat(indent)}${layer.fix}`)];
}

function describeVerdict(missing: readonly string[]): string {
  if (missing.length === 0) return 'Sandboxed kernels can start here.';
  return `Sandboxed kernels cannot start here: ${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing.`;
}

function write(out: ReportStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => out.write(text, (error) => (error ? reject(error) : resolve())));
}

const HELP = `
Examples:
  $ cella doctor
  $ cella doctor --python ~/venv/bin/python
  $ cella doctor --json | jq .ok
  $ cella doctor --redis redis://127.0.0.1:6379    also whether it would survive a restart

Tests every layer of isolation on this machine, and says what is missing and how to get it. It also shows
which executors can run here, and which program installs packages. See docs/sandbox.md.

Exit codes:
  0    sandboxed code can run here
  1    something required is missing, or the chosen Redis does not answer`;
