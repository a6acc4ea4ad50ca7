/** `cella serve --detach`: the same command again as a background process that outlives this one and its terminal. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync, readSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { answerFromProcess, settlesWithin } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import { Exit } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { shellQuote } from '../format.ts';
import type { ProgramContext } from '../program.ts';
import { parseReadyMessage, startupMessage, startWarnings } from './serve-startup.ts';

/** A log that is longer makes room for another at the next start. */
const MAX_LOG_BYTES = 10 * 1024 * 1024;
/** How much of what it said is told where it ended without a word to us. */
const LOG_TAIL_BYTES = 2000;
/** A start may read all of an old data folder, and more. */
const START_TIMEOUT_MS = 10 * 60_000;
/** How long a server that is not wanted has to end by itself, and then to be gone. */
const END_TIMEOUT_MS = 10_000;
/** After stdin, stdout and stderr. */
const READY_FD = 3;

/** Resolves when the server is ready, and fails as the server did. */
export async function detach({ dataDir, membersMay }: ServerConfig, context: ProgramContext): Promise<number> {
  const { terminal, ownCommand = [], words = [] } = context;
  const log = openLog(dataDir);
  const [program = process.execPath, ...first] = ownCommand;
  const rest = words.filter((word) => word !== '--detach' && word !== '-d');
  const child = spawn(program, [...first, ...rest, '--ready-fd', String(READY_FD)], {
    detached: true,
    stdio: ['ignore', log.fd, log.fd, 'pipe'],
  });
  await terminal.status('Starting the server');
  const over = once(child, 'exit');
  over.catch(() => {}); // told where it is waited for
  const exitCode = await runAbortable(context, async (signal) => {
    // Whoever gives up while it starts does not want it.
    const ended = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => void endServer(child, over).then(ended.resolve));
    const told = await readReadyMessage(child, log.path).catch(async (error) => {
      await endServer(child, over);
      throw error;
    });
    if (signal.aborted) await ended.promise;
    signal.throwIfAborted();
    const facts = parseReadyMessage(told);
    if (!facts) throw await earlyExitError(over, log);
    await terminal.out(startupMessage(facts, context));
    for (const warning of startWarnings(membersMay)) await terminal.errLines(warning, 'yellow');
    const where = dataDir === context.defaults.dataDir ? '' : ` --data ${shellQuote(dataDir)}`;
    const end = `Stop it with \`cella serve stop${where}\`.`;
    await terminal.outLines(`Running as process ${child.pid}, with logs in ${log.path}. ${end}`);
    return Exit.ok;
  });
  closeSync(log.fd);
  child.unref();
  return exitCode;
}

interface ServerLog {
  readonly path: string;
  readonly fd: number;
  /** How long it was before. */
  readonly start: number;
}

/** For this user alone, and never through a link that somebody has put there. */
function openLog(dataDir: string): ServerLog {
  const path = join(dataDir, 'daemon.log');
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
    const open = () => openSync(path, flags, 0o600);
    let fd = open();
    if (fstatSync(fd).size > MAX_LOG_BYTES) {
      closeSync(fd);
      renameSync(path, `${path}.1`);
      fd = open();
    }
    fchmodSync(fd, 0o600);
    return { path, fd, start: fstatSync(fd).size };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CellaError('INVALID_OPTIONS', `The log ${path} cannot be written: ${reason}.`, { cause });
  }
}

/** All that it says of its start. */
async function readReadyMessage(child: ChildProcess, logPath: string): Promise<string> {
  const { pid = 0 } = child;
  return await answerFromProcess(textOf(child.stdio[READY_FD]), { pid, timeoutMs: START_TIMEOUT_MS }, (why) => {
    const message = `The server was not ready in time and was ended: ${why}. Its log is ${logPath}.`;
    return new CellaError('SERVER_UNREACHABLE', message);
  });
}

/** Resolves when it has ended, or cannot be ended. */
async function endServer(child: ChildProcess, over: Promise<unknown>): Promise<void> {
  child.kill('SIGTERM');
  if (!isStopped(child.pid ?? 0) && (await settlesWithin(over, END_TIMEOUT_MS))) return;
  child.kill('SIGKILL');
  await settlesWithin(over, END_TIMEOUT_MS);
}

async function textOf(stream: unknown): Promise<string> {
  if (!(stream instanceof Readable)) return '';
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += chunk;
  return text;
}

async function earlyExitError(over: Promise<unknown[]>, { fd, path, start }: ServerLog): Promise<CellaError> {
  const [code, signal] = await over;
  const size = Math.min(fstatSync(fd).size - start, LOG_TAIL_BYTES);
  const bytes = Buffer.alloc(Math.max(0, size));
  readSync(fd, bytes, 0, bytes.length, fstatSync(fd).size - bytes.length);
  const said = bytes.toString('utf8').trim();
  const how = signal === null ? `with the exit code ${code}` : `by ${signal}`;
  return new CellaError('INTERNAL', `The server ended ${how} before it was ready; see ${path}.${said && `\n${said}`}`);
}
