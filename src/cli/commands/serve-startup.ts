/** What a starting server reports: the startup message, warnings, and the line that a parent process waits for. */

import { closeSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { openFilesWarning } from '../../lib/open-files.ts';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import { END_SIGNALS, SAME_SIGNAL_MS } from '../command-lifecycle.ts';
import type { StartedServer } from '../context.ts';
import { shellQuote } from '../format.ts';
import type { ProgramContext } from '../program.ts';

type StartupContext = Pick<ProgramContext, 'version' | 'defaults'>;

/** For members: a folder that the host reaches as root lets them change what root alone may, and so become root. */
const ROOT_RISKS: Readonly<Record<string, string>> = {
  folders: 'name any folder of this machine for their sessions',
  unsandboxed: 'run code without a sandbox',
  'in-process': 'run code in the process of the server',
};

/** What the operator should know of what members may; nothing where the server does not run as root. */
function rootWarnings(membersMay: readonly string[] = [], isRoot = process.getuid?.() === 0): string[] {
  return membersMay.flatMap((privilege) => {
    const what = isRoot ? ROOT_RISKS[privilege] : undefined;
    if (what === undefined) return [];
    return [
      `--members-may ${privilege}: members may ${what}, and this server runs as root. Treat every member as root here.`,
    ];
  });
}

/** What the operator should know before anybody uses the server. */
export function startWarnings(membersMay: readonly string[] | undefined): string[] {
  const tooFewFiles = openFilesWarning();
  return [...rootWarnings(membersMay), ...(tooFewFiles ? [tooFewFiles] : [])];
}

export function startupMessage(
  { url, dataDir, adminTokenPath, loginUrl }: StartedServer,
  about: StartupContext,
): string {
  const { version, defaults } = about;
  const auth = `-H "Authorization: Bearer $(cat ${shellQuote(adminTokenPath)})"`;
  // Another terminal may not have the variable.
  const usual = dataDir === defaults.dataDir && defaults.variables?.CELLA_DATA_DIR === undefined;
  const where = usual ? '' : ` --data ${shellQuote(dataDir)}`;
  return `Cella ${version} serves ${dataDir} at ${url}

  log in once:     ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  cella run${where} --agent first -c '6 * 7'

The same over HTTP:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}

const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code);

const ReadyLine = z.union([
  z.object({
    ready: z.object({ url: z.string(), dataDir: z.string(), adminTokenPath: z.string(), loginUrl: z.string() }),
  }),
  z.object({ failed: z.object({ code: z.string(), message: z.string(), advice: z.string().optional() }) }),
]);

type ReadyMessage = { readonly ready: StartedServer } | { readonly failed: unknown };

/** Once: what is told later, such as a failure after it was ready, is told to nobody here. */
export function sendReadyMessage(fd: number, told: ReadyMessage): void {
  const line = 'ready' in told ? told : { failed: toReadyFailure(told.failed) };
  try {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    closeSync(fd);
  } catch {
    // Whoever waited for it has gone, or was told before.
  }
}

/** Gives where the server is, or fails as it did. Undefined where the text is no such line. */
export function parseReadyMessage(text: string): StartedServer | undefined {
  const [first = ''] = text.split('\n');
  if (first === '') return undefined;
  const told = ReadyLine.parse(JSON.parse(first));
  if ('ready' in told) return told.ready;
  const { code, message, advice } = told.failed;
  if (isErrorCode(code)) throw new CellaError(code, message, advice === undefined ? {} : { advice });
  throw new Error(message);
}

function toReadyFailure(error: unknown): { code: string; message: string; advice?: string } {
  if (error instanceof CellaError) return { code: error.code, message: error.message, advice: error.advice };
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'UNEXPECTED', message };
}

/** How long the default action of the signal has to end the process, before it is killed. */
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

/** From here on, and until the process ends. It keeps no process from ending. */
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
  worker.on('error', () => {}); // signals work as without it
}
