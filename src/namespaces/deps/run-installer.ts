/**
 * Installs packages into a folder: with an installer that runs as another user with bounded output, or with the built-in
 * resolver.
 */

import { join } from 'node:path';
import { type ProcessEnd, runProcess } from '../../lib/run-process.ts';
import { messageOf } from '../../lib/values.ts';
import type { Interpreter } from '../../protocol/environment-spec.ts';
import type { SandboxUser } from '../../sandbox/sandbox-user.ts';
import type { InstallWorkspace } from './install-workspace.ts';
import type { InstallerCommand } from './installers.ts';
import { indexesOf, type PackageSource, withoutSecrets, withoutUser } from './package-source.ts';
import { explainNotFound, installBuiltIn } from './resolver/install-wheels.ts';
import { installAborted, type PackageProgress } from './shared-installs.ts';

export interface InstallerRun {
  readonly command: string;
  readonly args: readonly string[];
  readonly identity: SandboxUser;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  onLine?(line: string): void;
}

type InstallerExit =
  | ({ readonly kind: 'ended' } & ProcessEnd)
  | { readonly kind: 'not-started'; readonly reason: string }
  | { readonly kind: 'timed-out' }
  | { readonly kind: 'aborted' };

interface InstallerOutcome {
  readonly ending: InstallerExit;
  /** The last lines, without colours. */
  readonly lines: readonly string[];
}

const KEPT_LINES = 400;

/** Resolves when all its processes have ended, except those that cannot be killed. */
export async function runInstaller(run: InstallerRun): Promise<InstallerOutcome> {
  const { command, args, identity, cwd, env, timeoutMs, signal } = run;
  if (signal.aborted) return { ending: { kind: 'aborted' }, lines: [] };
  const user = identity.root ? { uid: identity.uid, gid: identity.gid } : undefined;
  const lines: string[] = [];
  const onLine = (raw: string) => {
    const line = withoutColours(raw).trimEnd();
    if (line === '') return;
    lines.push(line);
    if (lines.length > KEPT_LINES) lines.shift();
    run.onLine?.(line);
  };
  const options = { cwd, env, user, timeoutMs, signal, outputLimitBytes: 0, onLine };
  try {
    const { exit, timedOut } = await runProcess([command, ...args], options);
    if (signal.aborted) return { ending: { kind: 'aborted' }, lines };
    return { ending: timedOut ? { kind: 'timed-out' } : { kind: 'ended', ...exit }, lines };
  } catch (error) {
    // For example if root may not switch to another user.
    return { ending: { kind: 'not-started', reason: messageOf(error) }, lines };
  }
}

function withoutColours(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out.
  return line.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
}

export interface InstallFailure {
  readonly reason: string;
  /** `all`: the error would be the same for any requirement, for example if the index does not answer. */
  readonly scope: 'some' | 'all';
}

const WORTH_TELLING =
  /^(Collecting|Downloading|Installing|Successfully|Looking|Processing|Resolved|Prepared|Installed) ?/;
const UNREACHABLE = /connection broken|failed to establish|connect(ion)? error|error sending request/i;
const LONGEST = 1500;
const BUILDS =
  'a package would have to be built from source, and Cella does not do that, because it runs the code of the package';

/** A progress line, or undefined for other lines. */
export function progressLine(line: string, source: PackageSource): string | undefined {
  const text = line.trim();
  return WORTH_TELLING.test(text) ? withoutSecrets(text, source).slice(0, 200) : undefined;
}

export function explainFailure(ending: InstallerExit, lines: readonly string[], source: PackageSource): InstallFailure {
  if (ending.kind === 'not-started') return { reason: `the installer did not start: ${ending.reason}`, scope: 'all' };
  if (ending.kind === 'timed-out') return { reason: 'the installer did not end in time and was stopped', scope: 'all' };
  const unreachable = lines.find((line) => UNREACHABLE.test(line));
  const said = withoutSecrets(errorText(lines), source).slice(0, LONGEST);
  if (unreachable !== undefined) {
    const why = /(?:\[Errno -?\d+\] )([^'")]+)|([A-Z][a-z ]+) \(os error/.exec(lines.filter(isConnection).join('\n'));
    const where = indexesOf(source).map(withoutUser).join(', ') || 'https://pypi.org/simple';
    const short = why?.[1] ?? why?.[2];
    const reason = `the package index did not answer (${where}${short === undefined ? '' : `: ${short}`}). ${said}`;
    return { reason: reason.trim(), scope: 'all' };
  }
  if (/Resource temporarily unavailable/.test(said)) return { reason: BUILDS, scope: 'some' };
  if (said !== '') return { reason: said, scope: 'some' };
  const how = ending.kind === 'ended' ? (ending.signal ?? `exit code ${ending.code}`) : ending.kind;
  return { reason: `the installer failed without a reason (${how})`, scope: 'some' };
}

function isConnection(line: string): boolean {
  return UNREACHABLE.test(line) || /os error/.test(line);
}

/** The error in the output: pip marks each line of it, uv the first. After a crash, the last line is best. */
function errorText(lines: readonly string[]): string {
  const marked = lines.filter((line) => line.startsWith('ERROR: ')).map((line) => line.slice('ERROR: '.length));
  const messages = marked.filter((line) => line !== 'Exception:');
  // The installer's user cannot read a folder of wheels.
  const ignored = lines.filter((line) => /^WARNING: .* is ignored/.test(line)).map((line) => line.slice(9));
  if (messages.length > 0) return [...new Set([...messages, ...ignored])].join('; ');
  const first = lines.findIndex((line) => /^\s*(error:|×)/.test(line));
  if (marked.length > 0 || first < 0) return lines.at(-1) ?? '';
  const drawn = lines.slice(first).map((line) => line.replace(/^[\s×╰─▶├│]+/, ''));
  return drawn.join(' ').replace(/^error: /, '');
}

interface InstallRequest {
  readonly requirements: readonly string[];
  readonly source: PackageSource;
  readonly timeoutMs: number;
  readonly workspace: InstallWorkspace;
}

type PackageInstallResult =
  | { readonly kind: 'filled'; readonly folder: string }
  | ({ readonly kind: 'failed' } & InstallFailure);

export interface Installer {
  /** Name and version for the manifest. */
  readonly name: string;
  install(work: InstallRequest, audience: PackageProgress): Promise<PackageInstallResult>;
}

/** `foreign`: the Python that it installs for, if it is not the host's. */
export function programInstaller(installer: InstallerCommand, foreign?: Interpreter): Installer {
  return {
    name: installer.name,
    install: async ({ workspace, source, timeoutMs }, { signal, progress }) => {
      const { identity, cwd, env, target: folder } = workspace;
      const { ending, lines } = await runInstaller({
        command: installer.command,
        args: installer.args({ ...workspace, source }),
        identity,
        cwd,
        env,
        timeoutMs,
        signal,
        onLine: (line) => {
          const text = progressLine(line, source);
          if (text !== undefined) progress(text);
        },
      });
      if (signal.aborted) throw installAborted();
      if (ending.kind === 'ended' && ending.code === 0) return { kind: 'filled', folder };
      const failure = explainFailure(ending, lines, source);
      const real = foreign && (await explainNotFound(lines, foreign, source, signal));
      return { kind: 'failed', ...(real ?? failure) };
    },
  };
}

/** Unpacks packages in a folder that no other user can enter. */
export function builtInInstaller(interpreter: Interpreter): Installer {
  return {
    name: 'cella',
    install: async ({ workspace, ...work }, audience) => {
      const failure = await installBuiltIn({ ...work, interpreter, folder: workspace.inside }, audience);
      if (failure) return { kind: 'failed', ...failure };
      return { kind: 'filled', folder: join(workspace.inside, 'target') };
    },
  };
}
