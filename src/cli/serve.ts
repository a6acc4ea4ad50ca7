/** `cella serve`: one server for every agent of a team, until somebody ends it. */

import { type Command, InvalidArgumentError } from 'commander';
import { parseSeconds } from './arguments.ts';
import type { ServedFacts, ServeRequest } from './context.ts';
import { defineCommand } from './define.ts';
import { Exit, UsageError } from './exit.ts';
import * as help from './help.ts';
import { addPackageFlags, collect, type PackageFlags, packageOptionsOf } from './package-flags.ts';
import { parseText } from './parse-text.ts';
import type { ProgramContext } from './program.ts';
import { addStorageFlags, type StorageFlags, storagePlaceOf } from './storage-flags.ts';
import { toWord } from './texts.ts';

interface ServeFlags extends StorageFlags, PackageFlags {
  readonly host?: string;
  readonly port?: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly insecureHttp?: boolean;
  readonly allowHost?: readonly string[];
  readonly advertise?: string;
  readonly membersMay?: string;
  readonly maxKernels?: number;
  readonly idle?: number;
  readonly grace?: number;
  readonly rate?: number;
  readonly flush?: boolean;
  readonly logLevel?: string;
  readonly logFile?: string;
  readonly python?: string;
  readonly tools?: readonly string[];
}

const DEFAULT_PORT = 7710;
const DEFAULT_GRACE_MS = 10_000;

export function addServe(program: Command, context: ProgramContext, done: (exitCode: number) => void): void {
  const summary = 'serve kernels to a team: REST, WebSocket, users and rights';
  const command = addStorageFlags(defineCommand(program, 'serve', summary, help.serve))
    .option('--host <address>', 'where it listens (default: CELLA_HOST, else 127.0.0.1)', parseText)
    .option(
      '--port <port>',
      `the port, or 0 for any that is free (default: CELLA_PORT, else ${DEFAULT_PORT})`,
      parsePort,
    )
    .option('--tls-cert <path>', 'a certificate, with those that vouch for it; needed for another address', parseText)
    .option('--tls-key <path>', 'its key', parseText)
    .option('--insecure-http', 'another address without TLS: a proxy in front speaks it')
    .option('--allow-host <name>', 'a name that the server goes by, beside its address', collect)
    .option('--advertise <url>', 'where other servers on the same Redis reach it (default: its own address)', parseText)
    .option('--members-may <list>', 'what members may ask for; see below (default: CELLA_MEMBERS_MAY)', parseText)
    .option('--max-kernels <n>', 'kernels that may live at a time (default: 64)', parseCount)
    .option('--idle <seconds>', 'idle kernels sleep after this long (default: 600)', parseSeconds)
    .option('--grace <seconds>', 'how long running code has at the end (default: 10)', parseSeconds)
    .option(
      '--no-flush',
      'tell results before they are on the disk: faster, and a loss of power may lose the last ones',
    )
    .option('--rate <n>', 'requests a second that one token may send (default: 500)', parseCount)
    .option(
      '--log-level <level>',
      'debug, info, warn, error or silent (default: CELLA_LOG_LEVEL, else info)',
      parseText,
    )
    .option('--log-file <path>', 'where logs go instead of stderr', parseText)
    .option('--python <path>', 'a Python 3.9 or later (default: CELLA_PYTHON, else python3)', parseText)
    .option('--tools <dir>', 'a folder with more definitions of tools (default: CELLA_TOOLS)', collect);
  addPackageFlags(command).action(async (flags: ServeFlags) => done(await run(requestOf(flags, context), context)));
}

/** The first signal ends it in good order, the second at once. */
async function run(request: ServeRequest, context: ProgramContext): Promise<number> {
  const { terminal, signals } = context;
  const [ended, forced] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let told = false;
  const end = () => {
    if (told) forced.resolve();
    told = true;
    ended.resolve();
  };
  const names = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  for (const name of names) signals.on(name, end);
  try {
    const onReady = (facts: ServedFacts) => terminal.out(greeting(facts, context.version));
    await context.serve(request, { onReady, ended: ended.promise, forced: forced.promise });
    return Exit.ok;
  } finally {
    for (const name of names) signals.off(name, end);
  }
}

function greeting({ url, dataDir, adminTokenPath, loginUrl }: ServedFacts, version: string): string {
  const auth = `-H "Authorization: Bearer $(cat ${toWord(adminTokenPath)})"`;
  return `Cella ${version} serves ${dataDir} at ${url}

  log in, once:    ${loginUrl}
  admin token:     ${adminTokenPath}
  API:             ${url}/docs

The first cell:
  id=$(curl -s ${auth} ${url}/v1/sessions -d '{"agentKey":"first"}' | sed 's/.*"id":"\\(ses_[^"]*\\)".*/\\1/')
  curl -s ${auth} ${url}/v1/sessions/$id/execute -d '{"code":"6 * 7"}'

`;
}

function requestOf(flags: ServeFlags, { defaults }: ProgramContext): ServeRequest {
  const { tlsCert, tlsKey, maxKernels, idle, rate, logFile, advertise } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new UsageError('--tls-cert and --tls-key go together.', 'Give both, or neither.');
  }
  const python = flags.python ?? defaults.python;
  const tools = flags.tools ?? defaults.toolFolders;
  const packages = packageOptionsOf(flags, defaults);
  return {
    place: storagePlaceOf(flags, defaults),
    address: flags.host ?? defaults.serveHost ?? '127.0.0.1',
    port: flags.port ?? (defaults.servePort === undefined ? DEFAULT_PORT : portOf(defaults.servePort)),
    ...(tlsCert === undefined || tlsKey === undefined ? {} : { tls: { certPath: tlsCert, keyPath: tlsKey } }),
    insecureHttp: flags.insecureHttp === true,
    names: (flags.allowHost ?? []).map((name) => name.toLowerCase()),
    ...(advertise === undefined ? {} : { advertise }),
    membersMay: (flags.membersMay ?? defaults.membersMay ?? '').split(',').filter((word) => word !== ''),
    ...(maxKernels === undefined ? {} : { maxKernels }),
    ...(idle === undefined ? {} : { idleMs: idle }),
    ...(rate === undefined ? {} : { rate }),
    flushResults: flags.flush !== false,
    graceMs: flags.grace ?? DEFAULT_GRACE_MS,
    logLevel: flags.logLevel ?? defaults.logLevel ?? 'info',
    ...(logFile === undefined ? {} : { logFile }),
    ...(python === undefined ? {} : { python }),
    ...(tools === undefined ? {} : { toolFolders: [...tools] }),
    ...(packages === undefined ? {} : { packages }),
  };
}

function portOf(text: string): number {
  try {
    return parsePort(text);
  } catch {
    throw new UsageError(
      `CELLA_PORT is ${JSON.stringify(text)}, which is no port.`,
      'Set it to a number, or use --port.',
    );
  }
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
  if (port >= 0 && port <= 65_535) return port;
  throw new InvalidArgumentError('It must be a port from 1 to 65535, or 0 for any that is free.');
}

function parseCount(text: string): number {
  const count = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= 100_000) return count;
  throw new InvalidArgumentError('It must be a whole number from 1 to 100000.');
}
