/** `cella mcp`: a Python kernel as the code interpreter of any MCP client. */

import { Option } from 'commander';
import type { ServeMcpOptions } from '../../mcp/serve-mcp.ts';
import { port } from '../../settings/setting.ts';
import { settings } from '../../settings/settings-table.ts';
import type { OpenOptions } from '../backend/backend.ts';
import type { BackendSelector } from '../backend/backend-selector.ts';
import { UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { addSetting, parserOf, parseSeconds, parseText } from '../options.ts';
import { addRuntimeFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { addTargetFlags } from '../target-options.ts';

interface McpFlags extends SessionFlags {
  readonly timeout?: number;
  readonly http?: number;
  readonly tokenFile?: string;
}

/** The options of an MCP server on the command line. */
interface ServeMcpRequest {
  readonly session: OpenOptions;
  /** The timeout of code that sets none. */
  readonly timeoutMs: number;
  /** Serves over HTTP instead of stdin and stdout; port 0 means any free port. */
  readonly http?: { readonly port: number; readonly tokenFile?: string };
}

const DEFAULT_TIMEOUT_MS = 300_000;

export function addMcp(define: DefineCommand, context: CommandContext, done: Done): void {
  const whose = { about: 'agent key for calls without `agent_key`', otherwise: 'one for this folder' };
  const command = define(HELP);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose), { tokenFile: false }))
    .option('--timeout <seconds>', 'time limit of calls that do not set one (default: 300)', parseSeconds)
    .addOption(
      new Option('--no-sync-deps', 'do not install the listed packages first (default: install)').helpGroup(
        'Packages:',
      ),
    )
    .option('--http <port>', 'serve streamable HTTP on 127.0.0.1 instead of stdin and stdout', parserOf(port))
    .option('--token-file <path>', 'file with the bearer token for --http, readable only by its owner', parseText)
    .action(async (flags: McpFlags) => done(await serve(requestOf(flags, context), context)));
}

async function serve(request: ServeMcpRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  if (request.http === undefined && terminal.interactive) {
    await terminal.errLines(
      'cella: waiting for an MCP client on stdin; `cella mcp --help` shows how to add it to one.',
    );
  }
  using signals = new Signals(context.signals, () => false);
  await serveUntil(signals.ended, request, context);
  return signals.exitCode ?? Exit.ok;
}

/** Serves until the client disconnects or `ended` resolves. Messages go to stderr. */
async function serveUntil(
  ended: Promise<unknown>,
  { session, timeoutMs, http }: ServeMcpRequest,
  { backend, version, defaults }: CommandContext,
): Promise<void> {
  const [{ serveMcp }, { ownCredentials }] = await Promise.all([
    import('../../mcp/serve-mcp.ts'),
    import('../backend/local-backend.ts'),
    backend.local.endKernelsAtClose(),
  ]);
  const { redis, agentKey, approve, onProgress, server, typed, ...options } = session;
  await serveMcp({
    version,
    agentKey,
    timeoutMs,
    session: { credentials: ownCredentials, ...options },
    storage: () => backend.local.redis(redis),
    elsewhere: await remoteSessions(session, backend),
    http: http && { ...http, token: defaults.mcpToken },
    ended,
    // A message may contain text from others.
    log: (line) => void process.stderr.write(`cella: ${line.replace(/[^\P{Cc}\n\t]/gu, '?')}\n`),
  });
}

/** Uses the sessions of the running server, if there is one. */
async function remoteSessions(options: OpenOptions, backend: BackendSelector): Promise<ServeMcpOptions['elsewhere']> {
  const remote = await backend.server(options);
  return (
    remote && {
      session: (agentKey, hooks) => remote.openIdleSession({ ...options, agentKey, ...hooks }),
      // The session's flags are checked when it opens.
      namespaces: () => backend.openNamespaces({ ...options, typed: [] }),
    }
  );
}

function requestOf(flags: McpFlags, context: CommandContext): ServeMcpRequest {
  const { http, tokenFile, ...others } = flags;
  if (http === undefined && tokenFile !== undefined) {
    throw new UsageError('--token-file needs --http.', 'Leave it out, or add --http PORT.');
  }
  return {
    session: sessionOptions({ ...others, syncDeps: flags.syncDeps !== false }, context.defaults),
    timeoutMs: flags.timeout ?? DEFAULT_TIMEOUT_MS,
    http: http === undefined ? undefined : { port: http, tokenFile },
  };
}

const HELP = `
Examples:
  $ claude mcp add cella -- cella mcp                 add it to Claude Code
  $ cella mcp --cwd . --network host                  work on the files here, with network
  $ cella mcp --no-runtime-deps --tools ./tools       locked packages, your own tools
  $ cella mcp --http 8765                             serve HTTP at http://127.0.0.1:8765/mcp

In the settings of another client (an IDE, Claude Desktop):
  { "mcpServers": { "cella": { "command": "cella", "args": ["mcp"] } } }

The client starts this command and speaks MCP on its stdin and stdout; messages for people go to stderr.
The model gets run_code, which runs Python in a kernel that keeps its state, and tools to list and change
tools, skills, artifacts and packages. See docs/mcp.md.

Without --key, the kernel belongs to the current folder, so that two projects do not share one. It
starts at the first call. When the client disconnects, or at SIGTERM, Cella saves variables.

With --http, every client needs a bearer token: CELLA_MCP_TOKEN, or the one in --token-file. Without
these, Cella creates a token in the data folder and prints its path on stderr. A token is never an
argument, because every user of the machine can see arguments.

Exit codes:
  0    the client disconnected      129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM
  2    the command line is wrong`;
