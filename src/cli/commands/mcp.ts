/** `cella mcp`: a Python kernel as the code interpreter of any MCP client. */

import { InvalidArgumentError, Option } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { port } from '../../settings/value-types.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { McpRequest } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseSeconds, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addRuntimeFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { addTargetFlags } from '../target-options.ts';

interface McpFlags extends SessionFlags {
  readonly timeout?: number;
  readonly http?: number;
  readonly tokenFile?: string;
}

const DEFAULT_TIMEOUT_MS = 300_000;

export function addMcp(define: DefineCommand, context: ProgramContext, done: Done): void {
  const whose = { about: 'agent key for calls that name none', otherwise: 'one for this folder' };
  const command = define(HELP);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose), { tokenFile: false }))
    .option('--timeout <seconds>', 'time limit of code that names none (default: 300)', parseSeconds)
    .addOption(
      new Option('--no-sync-deps', 'do not install the listed packages first (default: install)').helpGroup(
        'Packages:',
      ),
    )
    .option('--http <port>', 'serve streamable HTTP on 127.0.0.1 instead of stdin and stdout', parsePort)
    .option('--token-file <path>', 'file with the bearer token for --http, readable only by its owner', parseText)
    .action(async (flags: McpFlags) => done(await serve(requestOf(flags, context), context)));
}

async function serve(request: McpRequest, context: ProgramContext): Promise<number> {
  const { terminal } = context;
  if (request.http === undefined && terminal.interactive) {
    await terminal.errLines(
      'cella: waiting for an MCP client on stdin; `cella mcp --help` shows how to add it to one.',
    );
  }
  using signals = new Signals(context.signals, () => false);
  await context.serveMcp(request, signals.ended);
  return signals.exitCode ?? Exit.ok;
}

function requestOf(flags: McpFlags, context: ProgramContext): McpRequest {
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

function parsePort(text: string): number {
  try {
    return port.parse(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
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

Without --agent, the kernel belongs to the current folder, so that two projects do not share one. It
starts at the first call. When the client disconnects, or at SIGTERM, variables are saved.

With --http, every client needs a bearer token: CELLA_MCP_TOKEN, or the one in --token-file. Without
these, a token is created in the data folder, and its path printed on stderr. A token is never an
argument, because every user of the machine can see those.

Exit codes:
  0    the client disconnected      129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM
  2    the command line is wrong`;
