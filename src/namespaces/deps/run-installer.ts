/** Runs an installer as another user with bounded output, and turns its output into progress and reasons. */

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { onAbort } from '../../lib/abort.ts';
import { endsAfterKill, processEnd } from '../../lib/process-end.ts';
import type { SandboxUser } from '../../sandbox/spec.ts';
import { indexesOf, type PackageSource, withoutSecrets, withoutUser } from './package-source.ts';

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
  | { readonly kind: 'ended'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly kind: 'not-started'; readonly reason: string }
  | { readonly kind: 'timed-out' }
  | { readonly kind: 'aborted' };

interface InstallerOutcome {
  readonly ending: InstallerExit;
  /** The last ones, without colours. */
  readonly lines: readonly string[];
}

const KEPT_LINES = 400;
const KEPT_BYTES = 1000;

/** Resolves when nothing of it runs any more, but for what cannot be killed. */
export async function runInstaller(run: InstallerRun): Promise<InstallerOutcome> {
  if (run.signal.aborted) return { ending: { kind: 'aborted' }, lines: [] };
  const { root, uid, gid } = run.identity;
  let child: ChildProcessByStdio<null, Readable, Readable>;
  try {
    child = spawn(run.command, run.args, {
      cwd: run.cwd,
      env: run.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // A group of its own, so that all of it can be ended.
      detached: true,
      ...(root ? { uid, gid } : {}),
    });
  } catch (error) {
    // As where root may not become another user.
    return {
      ending: { kind: 'not-started', reason: error instanceof Error ? error.message : String(error) },
      lines: [],
    };
  }
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    readLines(stream, (line) => {
      lines.push(line);
      if (lines.length > KEPT_LINES) lines.shift();
      run.onLine?.(line);
    });
  }
  return { ending: await waitForExit(child, run), lines };
}

function waitForExit(child: ChildProcess, { signal, timeoutMs }: InstallerRun): Promise<InstallerExit> {
  const { promise, resolve } = Promise.withResolvers<InstallerExit>();
  let stopped: InstallerExit | undefined;
  const stop = (ending: InstallerExit) => {
    if (stopped) return;
    stopped = ending;
    killGroup(child);
    void endsAfterKill(promise, `The installer (process ${child.pid})`).then(() => resolve(ending));
  };
  const aborting = onAbort(signal, () => stop({ kind: 'aborted' }));
  const timer = setTimeout(() => stop({ kind: 'timed-out' }), timeoutMs);
  // What it has left behind would hold the pipes open.
  child.once('exit', () => killGroup(child));
  processEnd(child).then(
    ({ code, signal: by }) => resolve(stopped ?? { kind: 'ended', code, signal: by }),
    (error) => resolve({ kind: 'not-started', reason: error.message }),
  );
  return promise.finally(() => {
    clearTimeout(timer);
    aborting[Symbol.dispose]();
  });
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // All of it has ended.
  }
}

/** Of each line the beginning is kept, so that one without end does not grow. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  let begun = Buffer.alloc(0);
  const take = (part: Buffer) => {
    const room = KEPT_BYTES - begun.length;
    if (room > 0 && part.length > 0) begun = Buffer.concat([begun, part.subarray(0, room)]);
  };
  const end = () => {
    const line = withoutColours(begun.toString()).trimEnd();
    begun = Buffer.alloc(0);
    if (line !== '') onLine(line);
  };
  stream.on('data', (chunk: Buffer) => {
    let from = 0;
    for (let at = chunk.indexOf('\n'); at >= 0; at = chunk.indexOf('\n', from)) {
      take(chunk.subarray(from, at));
      end();
      from = at + 1;
    }
    take(chunk.subarray(from));
  });
  stream.once('end', end);
}

function withoutColours(line: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out.
  return line.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '');
}

export interface InstallFailure {
  readonly reason: string;
  /** `all`: it would be the same for any requirement, as where the index does not answer. */
  readonly scope: 'some' | 'all';
}

const WORTH_TELLING =
  /^(Collecting|Downloading|Installing|Successfully|Looking|Processing|Resolved|Prepared|Installed) ?/;
const UNREACHABLE = /connection broken|failed to establish|connect(ion)? error|error sending request/i;
const LONGEST = 1500;
const BUILDS = 'a package in it would have to be built from source, which runs its code and is not done';

/** Undefined for lines that are no progress. */
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

/** pip marks each line, uv the first of several; after a crash the last line says most. */
function errorText(lines: readonly string[]): string {
  const marked = lines.filter((line) => line.startsWith('ERROR: ')).map((line) => line.slice('ERROR: '.length));
  const messages = marked.filter((line) => line !== 'Exception:');
  // A folder of wheels that the installer's user cannot read.
  const ignored = lines.filter((line) => /^WARNING: .* is ignored/.test(line)).map((line) => line.slice(9));
  if (messages.length > 0) return [...new Set([...messages, ...ignored])].join('; ');
  const first = lines.findIndex((line) => /^\s*(error:|×)/.test(line));
  if (marked.length > 0 || first < 0) return lines.at(-1) ?? '';
  const drawn = lines.slice(first).map((line) => line.replace(/^[\s×╰─▶├│]+/, ''));
  return drawn.join(' ').replace(/^error: /, '');
}
