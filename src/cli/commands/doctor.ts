/**
 * `cella doctor`: checks whether this machine can isolate code, and what is missing: layers, executors, package installer and
 * Redis.
 */

import { styleText } from 'node:util';
import { CellaError } from '../../protocol/errors.ts';
import {
  describeUnknownVariable,
  readProcessConfig,
  resolveStorage,
  type StorageFlags,
  type UnknownVariable,
} from '../../settings/process-config.ts';
import { resolveSetting } from '../../settings/setting.ts';
import { serverSettings, settings } from '../../settings/settings-table.ts';
import type { StorageTarget } from '../backend/backend.ts';
import { adviceFor } from '../command-errors.ts';
import { wrapLines } from '../command-output.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { addSetting } from '../options.ts';
import { addStorageFlags, describeTarget } from '../target-options.ts';
import { writeTo } from '../terminal/terminal.ts';

export function addDoctor(define: DefineCommand, context: CommandContext, done: Done): void {
  const command = addStorageFlags(define(HELP));
  addSetting(command, settings.python, { about: 'Python to check' });
  addSetting(command, settings.engine, { about: 'container engine to check' });
  addSetting(command, settings.image, { about: 'image to check' })
    .option('--json', 'print one JSON object')
    .action(async (flags: StorageFlags & { python?: string; engine?: string; image?: string; json?: true }) => {
      const { configWarnings } = await import('./serve-startup.ts');
      const python = flags.python ?? context.defaults.python;
      const { stdout, noColor } = context.terminal;
      const target = resolveStorage(flags, context.defaults);
      const engine = flags.engine ?? context.defaults.engine;
      const image = flags.image ?? context.defaults.image;
      done(
        await doctor(
          {
            ...(await detect({ python, target, engine, image })),
            unknownVariables: context.defaults.unknownVariables,
            warnings: await configWarnings(
              resolveSetting(serverSettings.membersMay, undefined, context.defaults.variables),
            ),
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

/** An executor other than the one whose layers are reported. */
type FoundExecutor = DoctorCheck;

/** What kernels need besides isolation: other executors, the package installer, and whether the chosen storage is durable. */
export interface DoctorSurroundings {
  readonly executors: readonly FoundExecutor[];
  readonly installer?: { readonly name: string } | { readonly problem: string; readonly fix: string } | undefined;
  /** Variables that look like settings but are not. */
  readonly unknownVariables?: readonly UnknownVariable[] | undefined;
  /** What a server with this environment's settings would allow others to do. */
  readonly warnings?: readonly string[] | undefined;
  readonly redis?: { readonly where: string; readonly problems: readonly string[]; readonly reachable: boolean };
}

/** The sandbox's findings. Without Python there are no layers to test. */
export interface DoctorReport {
  readonly python?: string;
  readonly executable?: string;
  readonly kernel?: string;
  /** Why there is no Python, and how to fix that. */
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

/** Resolves with the exit code: 0 if every required layer is available, otherwise 1. */
export async function doctor(
  machine: DoctorReport & Partial<DoctorSurroundings>,
  options: DoctorOptions,
  out: ReportStream,
): Promise<number> {
  const required: readonly string[] = requiredLayers[machine.root ? 'root' : 'user'];
  const layers = machine.layers.map((layer) => ({ ...layer, required: required.includes(layer.name) }));
  const missing = required.filter((name) => !layers.some((layer) => layer.name === name && layer.available));
  const { installer, redis, unknownVariables, warnings } = machine;
  const executors = machine.executors && [subprocessOf(machine, missing), ...machine.executors];
  const ok = missing.length === 0 && redis?.reachable !== false;
  if (options.json) {
    const { python, executable, kernel, root, problem } = machine;
    const shown = layers.map(({ name, available, required, detail, fix }) => ({
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
      layers: shown,
      executors,
      installer,
      redis,
      unknownVariables,
      warnings,
    };
    await writeTo(out, `${JSON.stringify(report)}\n`);
    return ok ? 0 : 1;
  }
  const coloured = out.isTTY === true && !options.noColor;
  const paint: Paint = (style, text) => (coloured ? styleText(style, text, { validateStream: false }) : text);
  const around = checkSurroundings(machine);
  const choices = (executors ?? []).map((each) => ({ ...each, required: each.name === 'subprocess' }));
  const width = Math.max(...[...layers, ...choices, ...around].map(({ name }) => name.length));
  const parts = [layers, choices, around].filter((part) => part.length > 0);
  // A terminal of unknown size reports 0; a program accepts lines of any length.
  const screen = out.isTTY ? out.columns || 80 : Infinity;
  const flow = (text: string) => wrapLines(text, { width: screen, indent: 2 });
  const noted = [...(unknownVariables ?? []).map(describeUnknownVariable), ...(warnings ?? [])].flatMap(flow);
  const lines = [
    ...flow(headOf(machine)),
    ...parts.flatMap((part) => ['', ...part.flatMap((each) => describe(each, { width, screen }, paint))]),
    ...(noted.length > 0 ? ['', ...noted.map((line) => paint('yellow', line))] : []),
    '',
    ...flow(describeVerdict(machine.problem === undefined ? missing : ['Python'])).map((line) => paint('bold', line)),
  ];
  await writeTo(out, `${lines.join('\n')}\n`);
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
  // Problems of a usable Redis do not make the command fail.
  const bad = problems.map((detail) => ({ name: 'redis', available: false, required: !reachable, detail, fix: '' }));
  return [...found, ...bad];
}

interface Room {
  /** The width of the longest name. */
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

interface DetectOptions {
  readonly python: string | undefined;
  readonly target: StorageTarget;
  /** The container engine's address, in place of the usual ones. */
  readonly engine?: string | undefined;
  readonly image?: string | undefined;
}

async function detect({
  python: named,
  target,
  ...container
}: DetectOptions): Promise<DoctorReport & DoctorSurroundings> {
  const redis = target.redis ? { redis: await lookAtRedis(target) } : {};
  const others = [await lookAtContainers(container), await lookAtPyodide()];
  const [{ findPython }, { detectLayers }] = await Promise.all([
    import('../../interpreter/find-python.ts'),
    import('../../sandbox/detect.ts'),
  ]);
  try {
    const python = await findPython(named);
    const [machine, installer] = [await detectLayers(python), await lookForInstaller(python)];
    return { ...machine, installer, executors: others, ...redis };
  } catch (error) {
    // Other executors may work without Python.
    if (!(error instanceof CellaError) || error.code !== 'PYTHON_NOT_FOUND') throw error;
    const [problem, fix] = [error.message, adviceFor(error.code)];
    return { problem, fix, root: process.getuid?.() === 0, layers: [], executors: others, ...redis };
  }
}

async function lookForInstaller(python: string): Promise<DoctorSurroundings['installer']> {
  const { installerHere } = await import('../../namespaces/deps/installers.ts');
  try {
    return { name: await installerHere(python) };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { problem: error.message, fix: error.advice };
  }
}

async function lookAtRedis(target: StorageTarget): Promise<NonNullable<DoctorSurroundings['redis']>> {
  const { redisProblems } = await import('../../storage/redis/connection.ts');
  const where = describeTarget(target);
  try {
    return { where, reachable: true, problems: await redisProblems(target.redis?.url ?? '') };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { where, reachable: false, problems: [error.message] };
  }
}

async function lookAtContainers(wanted: Pick<DetectOptions, 'engine' | 'image'>): Promise<FoundExecutor> {
  const [{ connectEngine, DEFAULT_IMAGE }, { findImage }] = await Promise.all([
    import('../../environments/container/engine.ts'),
    import('../../environments/container/image-python.ts'),
  ]);
  const { engine = readProcessConfig().engine, image = DEFAULT_IMAGE } = wanted;
  const name = 'container';
  try {
    const found = await connectEngine(engine, readProcessConfig().runtimeDir);
    await findImage(found, image);
    const detail = `${found.name} ${found.version} at ${found.address}, with the image ${image}`;
    return { name, available: true, detail, fix: '' };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { name, available: false, detail: error.message, fix: adviceFor(error.code) };
  }
}

async function lookAtPyodide(): Promise<FoundExecutor> {
  const name = 'in-process';
  try {
    const { version } = await import('pyodide');
    return { name, available: true, detail: `Pyodide ${version}, for trusted code: it isolates nothing`, fix: '' };
  } catch {
    // Whatever the cause, Pyodide cannot be loaded.
    return { name, available: false, detail: 'the package pyodide cannot be loaded', fix: 'Install it again.' };
  }
}

const HELP = `
Examples:
  $ cella doctor
  $ cella doctor --python ~/venv/bin/python
  $ cella doctor --json | jq .ok
  $ cella doctor --redis redis://127.0.0.1:6379    also checks that Redis keeps its data

Tests every layer of isolation on this machine, and says what is missing and how to get it. It also shows
which executors can run here, and which program installs packages. See docs/sandbox.md.

Exit codes:
  0    sandboxed code can run here
  1    something required is missing, or the chosen Redis does not answer`;
