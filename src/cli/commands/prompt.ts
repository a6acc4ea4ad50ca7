/** `cella prompt`: sends a prompt to a coding agent in a session of a server. */

import { Option } from 'commander';
import type { Client, ClientSession } from '../../client/index.ts';
import type { PermissionMode } from '../../protocol/turn.ts';
import type { PromptOptions } from '../../session/api.ts';
import { settings } from '../../settings/settings-table.ts';
import {
  type AgentTurnContext,
  parseAgentName,
  parseToolNames,
  requireAgentApi,
  ShownTurn,
} from '../agent/shown-turn.ts';
import { findSession } from '../backend/find-server.ts';
import { UsageError } from '../command-errors.ts';
import { Signals } from '../command-lifecycle.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseSeconds, parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags } from '../target-options.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { readText } from '../terminal/line-input.ts';
import { approvalPrompter } from '../terminal/prompts.ts';

interface PromptFlags extends JsonServerFlags {
  readonly key?: string;
  readonly session?: string;
  readonly with?: string;
  readonly mode?: PermissionMode;
  readonly model?: string;
  readonly tools?: string;
  readonly timeout?: number;
  readonly profile?: string;
}

const modes = ['ask', 'auto-edit', 'plan', 'bypass'] as const satisfies readonly PermissionMode[];

export function addPrompt(define: DefineCommand, context: CommandContext, done: Done): void {
  const command = define(HELP);
  const whose = { about: 'session of this agent key; created if there is none', otherwise: 'default' };
  addSetting(
    addJsonServerFlags(command, 'print the events of the turn as JSON, one per line'),
    settings.agentKey,
    whose,
  )
    .argument('<text>', 'what the agent should do, or - to read it from stdin', parseText)
    .option('--session <session>', 'an existing session, by its id or agent key', parseText)
    .option('--with <agent>', 'agent, such as claude (default: the agent of the last prompt)', parseText)
    .addOption(new Option('--mode <mode>', 'what the agent may do without asking (default: ask)').choices(modes))
    .option('--model <model>', 'model to use', parseText)
    .option('--tools <names>', 'own tools that the agent may use, separated by commas (default: all)', parseText)
    .option('--profile <name>', 'one of your profiles; see `cella profiles`', parseText)
    .option('--timeout <seconds>', 'stop the turn after this time', parseSeconds)
    .action(async (words: string, flags: PromptFlags) => {
      const text = words === '-' ? await readText('-', { stdin: context.terminal.stdin, advice: '' }) : words;
      if (text.trim() === '')
        throw new UsageError('The prompt is empty.', 'Run `cella prompt --help` to see examples.');
      const { mode, model, tools, profile, timeout: timeoutMs } = flags;
      const options = {
        agent: flags.with === undefined ? undefined : parseAgentName(flags.with),
        mode,
        model,
        tools: tools === undefined ? undefined : parseToolNames(tools),
        profile,
        timeoutMs,
      };
      const { connectToServer } = await import('../backend/find-server.ts');
      await using client = await connectToServer(flags, context.defaults);
      const agentKey = flags.key ?? context.defaults.agentKey ?? 'default';
      const request = { text, session: flags.session, agentKey, options, json: flags.json === true };
      done(await prompt(client, request, context));
    });
}

interface PromptCommand {
  readonly text: string;
  /** Session id or agent key. Default: the session of `agentKey`, created if missing. */
  readonly session: string | undefined;
  readonly agentKey: string;
  readonly options: PromptOptions;
  readonly json: boolean;
}

export async function prompt(client: Client, request: PromptCommand, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const leaving = new AbortController();
  let turn: ShownTurn | undefined;
  using signals = new Signals(context.signals, () => turn?.stop() ?? false);
  void signals.ended.then(() => leaving.abort());
  const lines = openLineInput(terminal, signals.interrupt);
  try {
    // Tools that the agent's code calls may also ask for approval.
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
    return await Promise.race([turn.run(request.text, request.options), signals.ended]);
  } finally {
    if (signals.exitCode !== undefined) terminal.skipFlush();
    lines.close();
  }
}

async function sessionFor(
  client: Client,
  { session, agentKey }: PromptCommand,
  use: Parameters<Client['session']>[1],
): Promise<ClientSession> {
  if (session !== undefined) return await client.session((await findSession(client, session)).id, use);
  const { sessions } = await client.sessions.list({ agentKey, owner: client.me.userId, limit: 1 });
  const id = sessions[0]?.id ?? (await client.sessions.create({ agentKey })).id;
  return await client.session(id, use);
}

const HELP = `
Examples:
  $ cella prompt 'Write tests for src/price.py and run them'
  $ cella prompt 'Now make them pass' --mode auto-edit
  $ cella prompt 'What would you change?' --mode plan --session ses_k3v7q2mzp4abcdef
  $ cella prompt - < task.md --with claude --model claude-sonnet-4-5
  $ cella prompt 'Where is the price rounded?' --tools Read,Bash
  $ cella prompt 'Count the lines' --json | jq -r 'select(.type == "item_completed").text'

The agent works in the workspace and kernel of a session at a server, isolated from the machine. Its
conversation continues from one prompt to the next. Its messages go to stdout. On stderr you see the
tools it uses, its plan, the files it changes, and at the end the tokens and their cost.

If the agent wants to do something that its mode does not allow, Cella asks you: y allows it once, s for
this session, a always; n denies it, with a reason for the agent. Without a terminal, the agent waits until
somebody decides with \`cella permissions\`. Modes: ask (only reads), auto-edit (edits files of the
workspace), plan (changes nothing), bypass (everything; only in an isolated environment). See
docs/permissions.md.

Ctrl-C stops the turn; a second Ctrl-C exits.

Exit codes:
  0    the turn is complete         124    --timeout expired
  1    the turn failed              130    it was stopped, or you left
  2    the command line is wrong`;
