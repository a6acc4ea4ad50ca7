/** How commands fail: errors for a wrong command line, and the wording and printing of every failure. */

import { getSystemErrorMessage } from 'node:util';
import { type ErrorCode, errorCodes, isErrorCode } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import { exitCodeOfFailure, isBrokenPipe } from './exit-codes.ts';
import { escapeControlsKeepLines } from './format.ts';
import type { CliTerminal } from './terminal/terminal.ts';

/** The command line is invalid. `advice` says what to type instead. */
export class UsageError extends CellaError {
  constructor(message: string, advice: string) {
    super('INVALID_OPTIONS', message, { advice });
  }
}

interface FailureReport {
  readonly code: string;
  readonly message: string;
  readonly advice: string;
}

/** Never throws: if nothing can be printed, the exit code still reports the failure. */
export async function reportFailure(
  terminal: CliTerminal,
  error: unknown,
  { json }: { json: boolean },
): Promise<number> {
  const exitCode = exitCodeOfFailure(error);
  // The reader has exited.
  if (isBrokenPipe(error)) return exitCode;
  const failure = describeFailure(error);
  const written = json
    ? terminal.outLines(JSON.stringify({ type: 'error', ...failure }))
    : terminal.errLines(
        escapeControlsKeepLines(`cella: ${failure.message}${failure.advice && `\n${failure.advice}`}`),
        'red',
      );
  await written.catch(() => {});
  return exitCode;
}

function describeFailure(error: unknown): FailureReport {
  if (error instanceof CellaError) {
    return { code: error.code, message: messageFor(error), advice: adviceFor(error.code, error.ownAdvice) };
  }
  if (isFailedWrite(error)) {
    const reason = describeSystemError(error) ?? error.message;
    return { code: 'UNEXPECTED', message: `the output could not be written: ${reason}.`, advice: '' };
  }
  // The stack helps to find an unexpected error.
  const text = error instanceof Error ? error.stack : String(error);
  return { code: 'UNEXPECTED', message: `unexpected error: ${text}`, advice: '' };
}

function isFailedWrite(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && error.syscall === 'write';
}

/** Only for codes whose advice in the library names something that cannot be typed. */
const CLI_ADVICE: Partial<Record<ErrorCode, string>> = {
  INVALID_OPTIONS: 'Correct it; --help shows all options.',
  PYTHON_NOT_FOUND: 'Install Python 3.9 or later, or name one with --python or CELLA_PYTHON.',
  SANDBOX_UNAVAILABLE:
    'Run `cella doctor` to see what is missing and how to get it. --sandbox off runs trusted code without isolation.',
  WORKSPACE_NOT_WRITABLE:
    'Choose a folder that this user can write to, or leave out --cwd to use the workspace of the agent key.',
  KERNEL_BUSY: 'Wait for the running code, or interrupt it.',
  KERNEL_DIED: 'The next code starts with the variables that were last saved; files stay.',
  KERNEL_OUT_OF_MEMORY: 'Use less memory in the code, or give it more with --memory.',
  KERNEL_CPU_LIMIT: 'Split the work: a kernel may use one day of CPU time.',
  KERNEL_PROTOCOL:
    "The code wrote to the kernel's own connection. The next code starts with the variables that were last saved.",
  KEY_BUSY: 'Wait until that process has ended, or choose another key with --key.',
  FORK_UNSAFE: 'End these threads, or use a durable checkpoint (`cella checkpoints create`), which works with them.',
  CHECKPOINT_NOT_FOUND: '`cella checkpoints list` shows those of an agent key.',
  CHECKPOINT_DAMAGED: 'Restore an older one; `cella checkpoints list` shows them.',
  CHECKPOINT_TOO_LARGE: 'Delete large variables in the code, and try again.',
  TOO_MANY_CHECKPOINTS: '`cella checkpoints delete ID` deletes one; `cella checkpoints list` shows them.',
  NOTHING_TO_UNDO: '/restore NAME goes back to a checkpoint; /checkpoint NAME creates one.',
  NAME_TAKEN: 'Choose another name, or add --replace.',
  TOOL_NOT_FOUND: '`cella tools list` shows all tools, and invalid definitions.',
  TOOL_ARGUMENTS: '`cella tools show NAME` shows its parameters.',
  APPROVAL_REFUSED: 'Add --approve to `cella tools call` if nobody can be asked.',
  CREDENTIAL_MISSING: 'Set the variable CELLA_CREDENTIAL_NAME, with NAME in capitals.',
  SKILL_NOT_FOUND: '`cella skills list` shows all skills.',
  ARTIFACT_NOT_FOUND: '`cella artifacts list` shows all artifacts.',
  ARTIFACT_TOO_LARGE: 'Keep it in the workspace instead.',
  DEPS_LOCKED: 'Packages are locked with --no-runtime-deps; list and sync still work.',
  ENGINE_UNREACHABLE:
    'Start Docker (`systemctl start docker`) or Podman (`systemctl start podman.socket`), or name its socket with --engine, CELLA_ENGINE or DOCKER_HOST.',
  CAPABILITY_MISSING: 'Use an executor that can do it: --executor subprocess or --executor container.',
  STORAGE_UNREACHABLE: 'Running work continues when it is back. --storage file needs no server.',
  ALREADY_RESOLVED: 'Somebody else decided, or it expired. Nothing was changed.',
  NOT_FOUND: 'The `list` command shows what you may see; what others have not shared with you is not listed.',
  INVALID_REQUEST: 'Correct it; --help shows what the command takes.',
  IDEMPOTENCY_CONFLICT: 'Run the command again.',
  EVENTS_GONE: '`cella sessions logs` shows what is still kept.',
  CLIENT_TOO_SLOW: 'Run the command again; nothing is lost.',
  RATE_LIMITED: 'Wait a moment, and run fewer commands at the same time.',
  QUOTA_EXCEEDED: 'Wait if it is a rate limit, use less, or ask an admin for more (`cella users update`).',
  TURN_RUNNING: 'Wait for the running turn, or stop it with Ctrl-C where it was started.',
  RUNNER_OUT_OF_MEMORY: 'Ask for work that needs less memory, or create a session with more: --memory.',
  UNAUTHENTICATED: 'Give a valid token with --token-file or CELLA_TOKEN; `cella tokens create` creates one.',
  KERNEL_CRASH_LOOP:
    'Go back to an older checkpoint with `cella checkpoints restore`, or clear all variables with `/py reset` in `cella chat`.',
};

const FLAG_OF_OPTION: Readonly<Record<string, string>> = {
  agentKey: '--key',
  cwd: '--cwd',
  dataDir: '--data',
  engine: '--engine',
  executor: '--executor',
  image: '--image',
  limits: '--memory',
  'limits.memoryMb': '--memory',
  'packages.index': '--index',
  'packages.extraIndexes': '--extra-index',
  'packages.wheelFolders': '--wheels',
  python: '--python',
  sandbox: '--sandbox',
  toolFolders: '--tools',
};

/** For codes whose system message describes the call and not the problem. */
const PLAIN_SYSTEM_ERRORS: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a folder',
  ENOTDIR: 'a part of it is not a folder',
};

/** The request that a program would send, which servers mention besides the command. */
const ROUTE = /,? or (?:GET|PUT|POST|PATCH|DELETE) \/v1\/[\w/:-]+/g;

/** `own` is the advice of the error itself, if it has one. */
export function adviceFor(code: ErrorCode, own?: string): string {
  return own === undefined ? (CLI_ADVICE[code] ?? errorCodes[code].advice) : own.replace(ROUTE, '');
}

/** The same for an error of a server, whose code may be from a later version. */
export function adviceFromServer({ code, advice }: { readonly code: string; readonly advice: string }): string {
  const known = isErrorCode(code) ? code : undefined;
  return known && errorCodes[known].advice === advice ? adviceFor(known) : advice.replace(ROUTE, '');
}

function messageFor({ code, message: text, cause }: CellaError): string {
  const message = text.replaceAll(/\bexecutor: "([\w-]+)"/g, '--executor $1');
  if (code !== 'INVALID_OPTIONS') return message;
  const named = message.replace(/(^|: |; )([\w.]+): /g, (all, before: string, option: string) => {
    const flag = FLAG_OF_OPTION[option];
    return flag === undefined ? all : `${before}${flag}: `;
  });
  return cause instanceof Error
    ? named.replace(cause.message, () => describeSystemError(cause) ?? cause.message)
    : named;
}

/** The system's message without the call; undefined if the error did not come from a system call. */
function describeSystemError(error: NodeJS.ErrnoException): string | undefined {
  return (
    PLAIN_SYSTEM_ERRORS[error.code ?? ''] ??
    (error.errno === undefined ? undefined : getSystemErrorMessage(error.errno))
  );
}
