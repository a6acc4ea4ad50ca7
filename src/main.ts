/** Composition: the one file that may import everything. It gives the command line its parts; heavy ones load when used. */

import { existsSync } from 'node:fs';
import { Backend, LocalStores, watchFolder } from './cli/backend/backend.ts';
import { Exit, UsageError } from './cli/command-errors.ts';
import type { BenchFlags, McpRequest, OpenOptions, ServeHooks } from './cli/context.ts';
import { runProgram } from './cli/program.ts';
import { Terminal } from './cli/terminal/terminal.ts';
import { packageVersion } from './interpreter/package-file.ts';
import type { McpSessionHooks as McpHooks } from './mcp/mcp-backend.ts';
import type { ServedFacts } from './server/serve.ts';
import { loadConfig, readCredential, readProcessConfig } from './settings/process-config.ts';
import type { ServerConfig } from './settings/server-config.ts';

const version = packageVersion();
const environment = readProcessConfig();
const { stdin, stdout, stderr } = process;
const terminal = new Terminal({ stdin, stdout, stderr, noColor: environment.noColor });

const stores = new LocalStores();

/** Of whoever runs the command: they go to the tool that mentions them, and nowhere else. */
const credentials = async (name: string): Promise<string | undefined> => readCredential(name);

async function openSession({ redis, server, typed, ...options }: OpenOptions) {
  const [{ Session }, executors] = await Promise.all([
    import('./session/session.ts'),
    import('./session/shared-resources.ts'),
  ]);
  stores.closeFirst(executors.shutdown);
  const storage = await stores.redis(redis);
  return await Session.open({ credentials, ...options, ...(storage ? { storage } : {}) });
}

const doors = new Backend({
  openSession,
  listKernels: (place) => stores.listKernels(place),
  openNamespaces: (options) => stores.openNamespaces(options),
  listStore: (place) => stores.list(place),
  openCheckpoints: (where) => stores.openCheckpoints(where),
});

/** The sessions of an MCP server are those of a server that runs, where one does. */
async function mcpElsewhere(options: OpenOptions) {
  const there = await doors.server(options);
  if (!there) return undefined;
  const { openRemoteSession: openAt } = await import('./cli/backend/remote-backend.ts');
  return {
    session: (agentKey: string, hooks: McpHooks) => openAt(there, { ...options, agentKey, ...hooks }),
    namespaces: (agentKey: string) => doors.openNamespaces({ ...options, agentKey }),
  };
}

async function serveMcp({ session, timeoutMs, http }: McpRequest, ended: Promise<unknown>): Promise<void> {
  const [mcp, executors] = await Promise.all([import('./mcp/serve-mcp.ts'), import('./session/shared-resources.ts')]);
  stores.closeFirst(executors.shutdown);
  const { redis, agentKey, approve, onProgress, server, typed, ...options } = session;
  await mcp.serveMcp({
    version,
    agentKey,
    timeoutMs,
    session: { credentials, ...options },
    storage: () => stores.redis(redis),
    elsewhere: await mcpElsewhere(session),
    http: http && { ...http, token: environment.mcpToken },
    ended,
    // What it tells may be another's words.
    log: (line) => void stderr.write(`cella: ${line.replace(/[^\P{Cc}\n\t]/gu, '?')}\n`),
  });
}

async function serve(config: ServerConfig, { onReady, ended }: ServeHooks): Promise<void> {
  const [{ serve: serveUntil }, executors] = await Promise.all([
    import('./server/serve.ts'),
    import('./session/shared-resources.ts'),
  ]);
  stores.closeFirst(executors.shutdown);
  const told = ({ loginUrl = '', ...facts }: ServedFacts) => onReady({ ...facts, loginUrl });
  await serveUntil(config, { version, credentials }, ended, told);
}

interface Bench {
  bench(flags: BenchFlags, out: (text: string) => void, progress: (line: string) => void): Promise<number>;
}

/** The benchmark is no part of the package: Node runs it as it lies in a checkout. */
async function bench(flags: BenchFlags, shown: Terminal): Promise<number> {
  const file = new URL('../bench/main.ts', import.meta.url);
  if (!existsSync(file)) {
    throw new UsageError('The benchmark is not in this installation.', 'Run it in a checkout of Cella: npm run bench.');
  }
  const { bench: measure }: Bench = await import(file.href);
  const ignore = () => {};
  return await measure(
    flags,
    (text) => void shown.out(text).catch(ignore),
    (line) => void shown.errLines(line).catch(ignore),
  );
}

/** Of a server in the background: from its first moment on, before any of our code runs. */
function withoutDebugger(nodeFlags: readonly string[]): readonly string[] {
  return nodeFlags.includes('--disable-sigusr1') ? nodeFlags : [...nodeFlags, '--disable-sigusr1'];
}

/** Started by bin/cella.cjs for an older Node: when that process is gone, nobody waits for this one. */
function endWithLauncher(): void {
  if (!process.channel) return;
  process.on('disconnect', () => process.emit('SIGHUP', 'SIGHUP') || process.exit(Exit.hangup));
  process.channel.unref();
}

// Node would open its debugger at this signal, on a port that every local user can connect to.
process.on('SIGUSR1', () => {});
endWithLauncher();
const exitCode = await runProgram(process.argv.slice(2), {
  terminal,
  signals: process,
  version,
  defaults: environment,
  configured: loadConfig,
  ownCommand: [process.execPath, ...withoutDebugger(process.execArgv), process.argv[1] ?? ''],
  openSession: (options) => doors.openSession(options),
  listKernels: (place) => doors.listKernels(place),
  openCheckpoints: (where) => doors.openCheckpoints(where),
  openNamespaces: (options) => doors.openNamespaces(options),
  listStore: (place) => doors.listStore(place),
  copyNamespaces: (from, to, options) => stores.copy(from, to, options),
  factsByName: async (name) => (await import('./storage/media-types.ts')).factsByName(name),
  detect: async (options) => (await import('./cli/commands/doctor-probes.ts')).detect(options),
  bench,
  serve,
  watchFolder,
  serveMcp,
});
await doors.close();
await stores.close();
const flushed = await terminal.flush().then(
  () => true,
  () => false,
);
process.exit(flushed || exitCode !== Exit.ok ? exitCode : Exit.brokenPipe);
