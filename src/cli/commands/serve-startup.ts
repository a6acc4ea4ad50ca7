/** What a starting server reports: the startup message, warnings, and the line for the parent process. */

import { closeSync, existsSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { messageOf } from '../../lib/values.ts';
import { type ErrorCode, errorCodes } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ServerConfig } from '../../settings/server-config.ts';
import { END_SIGNALS, SAME_SIGNAL_MS } from '../command-lifecycle.ts';
import type { CommandContext } from '../define-command.ts';
import { shellQuote } from '../format.ts';

type StartupContext = Pick<CommandContext, 'version' | 'defaults'>;

/** A server that has started. */
export interface StartedServer {
  readonly url: string;
  readonly dataDir: string;
  readonly adminTokenPath: string;
  readonly loginUrl: string;
}

/** Risks of giving members a folder that the host reaches as root: they can change what only root may, and so become root. */
const ROOT_RISKS: Readonly<Record<string, string>> = {
  folders: 'name any folder of this machine for their sessions',
  unsandboxed: 'run code without a sandbox',
  'in-process': 'run code in the process of the server',
};

/** Warnings about what members may do; empty unless the server runs as root. */
function rootWarnings(membersMay: readonly string[] = [], isRoot = process.getuid?.() === 0): string[] {
  return membersMay.flatMap((privilege) => {
    const what = isRoot ? ROOT_RISKS[privilege] : undefined;
    if (what === undefined) return [];
    return [
      `--members-may ${privilege}: members may ${what}, and this server runs as root. Treat every member as root here.`,
    ];
  });
}

/** What the operator should know before the server is used. */
export async function startWarnings({
  membersMay,
  python,
}: Pick<ServerConfig, 'membersMay' | 'python'>): Promise<string[]> {
  const { missingPythonWarning } = await import('../../interpreter/find-python.ts');
  const noPython = await missingPythonWarning(python);
  return [...(await configWarnings(membersMay)), ...(noPython ? [noPython] : [])];
}

/** Warnings about settings and limits. `cella doctor` checks for Python itself. */
export async function configWarnings(membersMay: readonly string[] | undefined): Promise<string[]> {
  const { openFilesWarning } = await import('../../server/startup-checks.ts');
  const tooFewFiles = openFilesWarning();
  return [...rootWarnings(membersMay), ...(tooFewFiles ? [tooFewFiles] : [])];
}

export async function startupMessage(
  { url, dataDir, adminTokenPath, loginUrl }: StartedServer,
  about: StartupContext,
): Promise<string> {
  const { version, defaults } = about;
  const auth = `-H "Authorization: Bearer $(cat ${shellQuote(adminTokenPath)})"`;
  // Another terminal may not have the variable set.
  const usual = dataDir === defaults.dataDir && defaults.variables?.CELLA_DATA_DIR === undefined;
  const where = usual ? '' : ` --data ${shellQuote(dataDir)}`;
  const cella = await typedCella();
  return `Cella ${version} serves ${dataDir} at ${url}

  log in once:     ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  ${cella} run${where} --key first -c '6 * 7'

The same over HTTP:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}

/** In a checkout that is not linked, the shell cannot find `cella`. */
async function typedCella(): Promise<string> {
  const { hostSearchPath } = await import('../../interpreter/find-python.ts');
  const onPath = hostSearchPath()
    .split(delimiter)
    .some((folder) => existsSync(join(folder, 'cella')));
  if (onPath) return 'cella';
  const { packageFile } = await import('../../interpreter/package-file.ts');
  return `node ${shellQuote(packageFile('bin/cella.cjs'))}`;
}

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code);

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
export function parseReadyMessage(text: string): StartedServer | undefined {
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

/** How long the default action of the signal may take to end the process before it is killed. */
const LONGEST_END_MS = 200;

const CODE = `
const { workerData: { signals, sameMs, endMs } } = require('node:worker_threads');
const { Signal } = require('internal/test/binding').internalBinding('signal_wrap');
let first;
const handles = signals.map(([name, number]) => {
  const handle = new Signal();
  handle.onsignal = () => {
    const now = performance.now();
    first ??= { name, at: now };
    if (name === first.name && now - first.at < sameMs) return;
    for (const each of handles) each.stop();
    process.kill(process.pid, name);
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), endMs);
  };
  handle.start(number);
  return handle;
});
`;

/** Active from now on until the process ends. Does not keep the process alive. */
export function endAtSecondSignal(): void {
  const worker = new Worker(CODE, {
    eval: true,
    name: 'second signal',
    env: {},
    execArgv: ['--expose-internals', '--no-warnings'],
    workerData: {
      signals: END_SIGNALS.map((name) => [name, constants.signals[name]]),
      sameMs: SAME_SIGNAL_MS,
      endMs: LONGEST_END_MS,
    },
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  worker.unref();
  worker.on('error', () => {}); // signals then work as they do without it
}
