/** `cella agent`: prompts a coding agent in a session of a server. */

import { Option } from 'commander';
import type { Client, ClientSession } from '../../client/index.ts';
import type { PermissionMode } from '../../protocol/turn.ts';
import type { PromptOptions } from '../../session/api.ts';
import { settings } from '../../settings/settings-table.ts';
import { parseAgentName, parseToolNames, requireAgentApi } from '../agent/coding-agents.ts';
import { type AgentTurnContext, ShownTurn } from '../agent/shown-turn.ts';
import { findSession } from '../backend/find-server.ts';
import { UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseSeconds, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags } from '../server-client.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { readText } from '../terminal/line-input.ts';
import { approvalPrompter } from '../terminal/prompts.ts';

interface AgentFlags extends JsonServerFlags {
  readonly agent?: string;
  readonly session?: string;
  readonly with?: string;
  readonly mode?: PermissionMode;
  readonly model?: string;
  readonly tools?: string;
  readonly timeout?: number;
  readonly profile?: string;
}

const modes = ['ask', 'auto-edit', 'plan', 'bypass'] as const satisfies readonly PermissionMode[];

export function addAgent(define: DefineCommand, context: ProgramContext, done: Done): void {
  const command = define(help.agent);
  const whose = { about: 'the session of this agent key, made where there is none', otherwise: 'default' };
  addSetting(addJsonServerFlags(command), settings.agentKey, whose)
    .argument('<prompt>', 'what it is to do, or - to read it from stdin', parseText)
    .option('--session <session>', 'a session that is there, by its id or agent key', parseText)
    .option('--with <agent>', 'which agent: claude, or the one before', parseText)
    .addOption(new Option('--mode <mode>', 'what it may do without asking').choices(modes))
    .option('--model <model>', 'which model', parseText)
    .option('--tools <names>', 'those of its own tools that it may use, by commas; else all', parseText)
    .option('--profile <name>', 'a profile of yours; see `cella profiles`', parseText)
    .option('--timeout <seconds>', 'stop the turn after this long', parseSeconds)
    .action(async (words: string, flags: AgentFlags) => {
      const prompt = words === '-' ? await readText('-', { stdin: context.terminal.stdin, advice: '' }) : words;
      if (prompt.trim() === '')
        throw new UsageError('The prompt is empty.', 'Run `cella agent --help` to see examples.');
      const { mode, model, tools, profile, timeout: timeoutMs } = flags;
      const options = {
        ...(flags.with === undefined ? {} : { agent: parseAgentName(flags.with) }),
        ...(mode === undefined ? {} : { mode }),
        ...(model === undefined ? {} : { model }),
        ...(tools === undefined ? {} : { tools: parseToolNames(tools) }),
        ...(profile === undefined ? {} : { profile }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      };
      const { connectToServer } = await import('../backend/find-server.ts');
      await using client = await connectToServer(flags, context.defaults);
      const agentKey = flags.agent ?? context.defaults.agentKey ?? 'default';
      const request = { prompt, session: flags.session, agentKey, options, json: flags.json === true };
      done(await agent(client, request, context));
    });
}

interface AgentRequest {
  readonly prompt: string;
  /** By its id or agent key; without one, that of the agent key, made where there is none. */
  readonly session: string | undefined;
  readonly agentKey: string;
  readonly options: PromptOptions;
  readonly json: boolean;
}

export async function agent(client: Client, request: AgentRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const leaving = new AbortController();
  let turn: ShownTurn | undefined;
  using signals = new Signals(context.signals, () => turn?.stop() ?? false);
  void signals.ended.then(() => leaving.abort());
  const lines = openLineInput(terminal, signals.interrupt);
  try {
    // What the agent's code calls may ask, too.
    const approve = terminal.interactive ? { approve: approvalPrompter({ terminal, lines: () => lines }) } : {};
    const session = await sessionFor(client, request, approve);
    const turnContext: AgentTurnContext = {
      session: requireAgentApi(session),
      terminal,
      lines,
      json: request.json,
      leaving: leaving.signal,
    };
    turn = new ShownTurn(turnContext);
    return await Promise.race([turn.run(request.prompt, request.options), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
  }
}

async function sessionFor(
  client: Client,
  { session, agentKey }: AgentRequest,
  use: Parameters<Client['session']>[1],
): Promise<ClientSession> {
  if (session !== undefined) return await client.session((await findSession(client, session)).id, use);
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  const id = sessions[0]?.id ?? (await client.sessions.create({ agentKey })).id;
  return await client.session(id, use);
}

const help = {
  agent: `
Examples:
  $ cella agent 'Write tests for src/price.py and run them'
  $ cella agent 'Now make them pass' --mode auto-edit
  $ cella agent 'What would you change?' --mode plan --session ses_k3v7q2mzp4abcdef
  $ cella agent - < task.md --with claude --model claude-sonnet-4-5
  $ cella agent 'Where is the price rounded?' --tools Read,Bash
  $ cella agent 'Count the lines' --json | jq -r 'select(.type == "item_completed").text'

The agent works in the workspace and the kernel of a session at a server, in isolation, and goes on
with its conversation from one prompt to the next. What it says is on stdout, what it does on stderr.

Before it does what its mode does not allow, you are asked: y once, s for this session, a always, n no,
with a reason that the agent is told. Where nobody can be asked here, it waits for \`cella permissions\`.
Modes: ask (reads only), auto-edit (changes files of the workspace), plan (changes nothing), bypass
(everything; only in an isolated environment).

Ctrl-C stops the turn, a second one leaves.

Exit codes:
  0    the turn is complete         124    its time was over
  1    it failed                    130    it was stopped, or you left
  2    this command line is wrong`,
};
