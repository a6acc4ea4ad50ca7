/**
 * `cella serve --detach`: starts the server as a background process that outlives this one and its terminal, and waits for the
 * line in which it reports its start.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { answerFromProcess, settlesWithin } from '../../lib/deadline.ts';
import { isStopped } from '../../lib/process-identity.ts';
import { messageOf } from '../../lib/values.ts';
import { isErrorCode } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import { runAbortable } from '../command-lifecycle.ts';
import type { CommandContext } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { shellQuote } from '../format.ts';
import { type StartedServer, startupMessage, startWarnings } from './serve-startup.ts';

const ReadyLine = z.union([
  z.object({
    ready: z.object({ url: z.string(), dataDir: z.string(), adminTokenPath: z.string(), loginUrl: z.string() }),
  }),
  z.object({ failed: z.object({ code: z.string(), message: z.string(), advice: z.string().optional() }) }),
]);

type ReadyMessage = { readonly ready: StartedServer } | { readonly failed: unknown };

/** Sent once: later failures cannot be reported here. */
export function sendReadyMessage(fd: number, message: ReadyMessage): void {
  const line = 'ready' in message ? message : { failed: toReadyFailure(message.failed) };
  try {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    closeSync(fd);
  } catch {
    // The parent has exited, or already has the message.
  }
}

/** Returns where the server is, or throws the server's error. Undefined if the text is not such a line. */
function parseReadyMessage(text: string): StartedServer | undefined {
  const [first = ''] = text.split('\n');
  if (first === '') return undefined;
  const parsed = ReadyLine.parse(JSON.parse(first));
  if ('ready' in parsed) return parsed.ready;
  const { code, message, advice } = parsed.failed;
  if (isErrorCode(code)) throw new CellaError(code, message, advice === undefined ? {} : { advice });
  throw new Error(message);
}

function toReadyFailure(error: unknown): { code: string; message: string; advice?: string | undefined } {
  // An error without its own advice gets the waiting command's advice.
  if (error instanceof CellaError) return { code: error.code, message: error.message, advice: error.ownAdvice };
  const message = messageOf(error);
  return { code: 'UNEXPECTED', message };
}

/** A longer log is rotated at the next start. */
const MAX_LOG_BYTES = 10 * 1024 * 1024;
/** How much of the log to print if the server ended without reporting an error. */
const LOG_TAIL_BYTES = 2000;
/** A start may have to read a large old data folder. */
const START_TIMEOUT_MS = 10 * 60_000;
/** How long an abandoned server may take to end by itself, and then to disappear. */
const END_TIMEOUT_MS = 10_000;
/** The descriptor after stdin, stdout and stderr. */
const READY_FD = 3;

/** Resolves when the server is ready; fails with the server's error. */
export async function detach(config: ServerConfig, context: CommandContext): Promise<number> {
  const { dataDir } = config;
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
  over.catch(() => {}); // reported by the code that awaits it
  const exitCode = await runAbortable(context, async (signal) => {
    // Giving up during the start ends the server.
    const ended = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => void endServer(child, over).then(ended.resolve));
    const message = await readReadyMessage(child, log.path).catch(async (error) => {
      await endServer(child, over);
      throw error;
    });
    if (signal.aborted) await ended.promise;
    signal.throwIfAborted();
    const facts = parseReadyMessage(message);
    if (!facts) throw await earlyExitError(over, log);
    await terminal.out(await startupMessage(facts, context));
    for (const warning of await startWarnings(config)) await terminal.errLines(warning, 'yellow');
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
  /** The length of the log before this start. */
  readonly start: number;
}

/** Readable only for this user. Refuses to follow a link, which another user could have created. */
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
    const reason = messageOf(cause);
    const advice = 'Choose a data folder that this user can write to, with --data.';
    throw new CellaError('INVALID_OPTIONS', `The log ${path} cannot be written: ${reason}.`, { advice, cause });
  }
}

/** Everything that the server reports about its start. */
async function readReadyMessage(child: ChildProcess, logPath: string): Promise<string> {
  const { pid = 0 } = child;
  return await answerFromProcess(textOf(child.stdio[READY_FD]), { pid, timeoutMs: START_TIMEOUT_MS }, (why) => {
    const message = `The server was not ready in time and was ended: ${why}. Its log is ${logPath}.`;
    return new CellaError('SERVER_UNREACHABLE', message);
  });
}

/** Resolves when the server has ended, or cannot be ended. */
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
