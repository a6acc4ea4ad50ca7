/** Composition: the one file that may import everything. It gives the command line its parts; heavy ones load when used. */

import { existsSync, readFileSync } from 'node:fs';
import type { BenchFlags, McpRequest, OpenOptions, Shelf, StoragePlace } from './cli/context.ts';
import { Exit, UsageError } from './cli/exit.ts';
import { runProgram } from './cli/program.ts';
import { Terminal } from './cli/terminal.ts';
import { readEnvironment } from './environment.ts';
import type { Storage } from './storage/contract.ts';

const environment = readEnvironment();
const { stdin, stdout, stderr } = process;
const terminal = new Terminal({ stdin, stdout, stderr, noColor: environment.noColor });

function version(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return manifest.version;
}

/** What was opened and must be closed at the end. */
const endings = new Set<() => Promise<void>>();

const redisStorages = new Map<string, Promise<Storage>>();

/** Undefined where sessions find it themselves: in the files of their data folder. */
async function storageOf({ dataDir, redis }: StoragePlace): Promise<Storage | undefined> {
  if (!redis) return undefined;
  const key = JSON.stringify([redis.url, redis.prefix]);
  const opening = redisStorages.get(key) ?? openRedis(dataDir, redis);
  redisStorages.set(key, opening);
  // A server that is not there may come back.
  opening.catch(() => redisStorages.delete(key));
  return await opening;
}

async function openRedis(dataDir: string, { url, prefix }: NonNullable<StoragePlace['redis']>): Promise<Storage> {
  const { openStorage } = await import('./session/open-storage.ts');
  const storage = await openStorage({ storage: 'redis', dataDir, redisUrl: url, prefix });
  endings.add(() => storage.close());
  return storage;
}

async function openSession({ redis, ...options }: OpenOptions) {
  const [{ Session }, executors] = await Promise.all([
    import('./session/session.ts'),
    import('./session/executors.ts'),
  ]);
  endings.add(executors.shutdown);
  const storage = await storageOf({ dataDir: options.dataDir, ...(redis ? { redis } : {}) });
  return await Session.open({ ...options, ...(storage ? { storage } : {}) });
}

async function listAgents(where: StoragePlace) {
  const [agents, { closeStorages }] = await Promise.all([
    import('./session/agents.ts'),
    import('./session/storages.ts'),
  ]);
  endings.add(closeStorages);
  return await agents.listAgents({ dataDir: where.dataDir, storage: await storageOf(where) });
}

async function openShelf({ agentKey, ...place }: StoragePlace & { agentKey: string }): Promise<Shelf> {
  const [{ storageFor, closeStorages }, { dataFolder }] = await Promise.all([
    import('./session/storages.ts'),
    import('./session/data-folder.ts'),
  ]);
  endings.add(closeStorages);
  const { checkpoints } = await storageFor(await storageOf(place), dataFolder(place.dataDir)).storage;
  return {
    list: async () => {
      const manifests = await checkpoints.list(agentKey);
      return manifests.map(({ format, segments, kind, ...facts }) => {
        const { name, ...others } = facts;
        return { ...others, ...(name === undefined ? {} : { name }), kind: 'durable', automatic: kind === 'save' };
      });
    },
    damaged: () => checkpoints.damaged(agentKey),
    delete: (id) => checkpoints.delete(agentKey, id),
  };
}

async function detect(options: { python: string | undefined }) {
  const [{ findPython }, { detectLayers }] = await Promise.all([
    import('./sandbox/python.ts'),
    import('./sandbox/detect.ts'),
  ]);
  return await detectLayers(await findPython(options.python));
}

async function serveMcp({ session, http, ...request }: McpRequest, ended: Promise<unknown>): Promise<void> {
  const [mcp, executors] = await Promise.all([import('./mcp/serve.ts'), import('./session/executors.ts')]);
  endings.add(executors.shutdown);
  const { redis, agentKey, dataDir, ...options } = session;
  const { allowRuntimeDeps, syncDepsOnStart, toolFolders, timeoutMs } = request;
  await mcp.serveMcp({
    version: version(),
    agentKey,
    timeoutMs,
    session: { ...options, dataDir, allowRuntimeDeps, syncDepsOnStart, toolFolders: [...toolFolders] },
    storage: () => storageOf({ dataDir, ...(redis ? { redis } : {}) }),
    http: http && { ...http, token: environment.mcpToken },
    ended,
    log: (line) => void stderr.write(`cella: ${line}\n`),
  });
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

/** Started by bin/cella.cjs for an older Node: when that process is gone, nobody waits for this one. */
function endWithLauncher(): void {
  if (!process.channel) return;
  process.on('disconnect', () => process.emit('SIGHUP', 'SIGHUP') || process.exit(Exit.hangup));
  process.channel.unref();
}

endWithLauncher();
const exitCode = await runProgram(process.argv.slice(2), {
  terminal,
  signals: process,
  version: version(),
  defaults: environment,
  openSession,
  listAgents,
  openShelf,
  detect,
  bench,
  serveMcp,
});
for (const end of endings) await end();
const flushed = await terminal.flush().then(
  () => true,
  () => false,
);
process.exit(flushed || exitCode !== Exit.ok ? exitCode : Exit.brokenPipe);
