/** `cella agent`: what can be typed. */

import { Option } from 'commander';
import type { PermissionMode } from '../../protocol/turn.ts';
import { settings } from '../../settings/settings-table.ts';
import { UsageError } from '../command-errors.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags } from '../server-client.ts';
import { parseSeconds } from '../session-options.ts';
import { readText } from '../terminal/line-input.ts';
import { help } from './help.ts';

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
      const [{ agentNamed }, { toolsNamed }] = await Promise.all([
        import('./agent-named.ts'),
        import('./tools-named.ts'),
      ]);
      const { mode, model, tools, profile, timeout: timeoutMs } = flags;
      const options = {
        ...(flags.with === undefined ? {} : { agent: agentNamed(flags.with) }),
        ...(mode === undefined ? {} : { mode }),
        ...(model === undefined ? {} : { model }),
        ...(tools === undefined ? {} : { tools: toolsNamed(tools) }),
        ...(profile === undefined ? {} : { profile }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
      };
      const [{ agent }, { connectToServer: connectTo }] = await Promise.all([
        import('./agent.ts'),
        import('../backend/find-server.ts'),
      ]);
      await using client = await connectTo(flags, context.defaults);
      const agentKey = flags.agent ?? context.defaults.agentKey ?? 'default';
      const request = { prompt, session: flags.session, agentKey, options, json: flags.json === true };
      done(await agent(client, request, context));
    });
}
