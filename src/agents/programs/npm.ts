/** npm, which brings programs from its registry: run in a folder of its own, until it ends or is stopped. */

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { answerFromProcess } from '../../lib/deadline.ts';
import { endsAfterKill, processEnd } from '../../lib/process-end.ts';
import { CellaError } from '../../protocol/errors.ts';

/** No code of a package runs here: programs must work without. */
const ARGV = [
  'install',
  '--ignore-scripts',
  '--include=optional',
  '--omit=dev',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  '--package-lock=true',
  '--global=false',
  '--loglevel=http',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
];
/** npm itself gives up a registry that is silent. This is for the rest, with a slow line in mind. */
const LONGEST_INSTALL_MS = 60 * 60_000;
const MOST_WORDS = 16_384;
const MOST_LINES = 4;
const UNREACHABLE =
  /\b(ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|ERR_SOCKET_TIMEOUT|EHOSTUNREACH)\b/;
const UNKNOWN = /\b(ETARGET|E404)\b/;
/** What it tells of each package: that it has asked for it, and later that it wants its archive. */
const ASKED = /^npm http fetch GET 200 (?!\S+\.tgz )/;
const WANTED = /^npm http cache \S+\.tgz /;
const NO_FAILURE = /^npm (http|warn|notice)\b/;

export interface NpmOptions {
  readonly signal: AbortSignal;
  /** A name in PATH, or a path. */
  readonly npm: string;
  /** Told as it goes on. */
  readonly onStep?: (step: NpmStep) => void;
}

/** `asked`: packages that the registry was asked for. `wanted`: archives of packages that are fetched, once all are known. */
export interface NpmStep {
  readonly asked: number;
  readonly wanted: number;
}

/** Installs what the package.json of the folder names. */
export async function npmInstall(folder: string, { signal, npm, onStep = () => {} }: NpmOptions): Promise<void> {
  signal.throwIfAborted();
  // A group of its own: its children end with it.
  const child = spawn(npm, ARGV, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const stop = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has ended, and only its output is not at its end yet.
    }
  };
  let words = '';
  let step: NpmStep = { asked: 0, wanted: 0 };
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (ASKED.test(line)) step = { ...step, asked: step.asked + 1 };
    if (WANTED.test(line)) step = { ...step, wanted: step.wanted + 1 };
    if (NO_FAILURE.test(line)) onStep(step);
    else words = `${words}${line}\n`.slice(-MOST_WORDS);
  });
  // What it has left behind would hold its output open.
  child.once('exit', stop);
  const over = processEnd(child);
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  try {
    signal.addEventListener('abort', abort, { once: true });
    const waiting = { pid: child.pid ?? 0, timeoutMs: LONGEST_INSTALL_MS };
    const silent = (why: string) => new CellaError('AGENT_INSTALL_FAILED', `npm was ended: ${why}.`);
    const ended = Promise.race([over, aborted.promise]);
    const { code, signal: killedBy } = await answerFromProcess(ended, waiting, silent).catch(async (error) => {
      stop();
      if (child.pid !== undefined) await endsAfterKill(over, `npm (process ${child.pid})`);
      throw error;
    });
    signal.throwIfAborted();
    if (code !== 0) throw failureOf(words, code === null ? `was ended by ${killedBy}` : `ended with ${code}`);
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') {
      throw new CellaError('NPM_MISSING', `${npm} was not found.`, { cause });
    }
    throw cause;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function failureOf(words: string, how: string): CellaError {
  const lines = words.split('\n').map((line) => line.replace(/^npm (error|ERR!) ?/, ''));
  const telling = lines.filter((line) => /^\S/.test(line) && !/^(A complete log|at |\}|syscall|errno)/.test(line));
  const told = telling
    .slice(0, MOST_LINES)
    .join('\n')
    .replace(/\/\/[^/\s@]+@/g, '//…@'); // a password may be in it
  const message = `npm ${how}.\n${told}`.trim();
  if (UNREACHABLE.test(words)) return new CellaError('REGISTRY_UNREACHABLE', message);
  if (!UNKNOWN.test(words)) return new CellaError('AGENT_INSTALL_FAILED', message);
  const advice =
    'The registry does not have this version. Leave --version out to get the one that Cella is tested with.';
  return new CellaError('AGENT_INSTALL_FAILED', message, { advice });
}
