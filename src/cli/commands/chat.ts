/** `cella chat`: its flags and help. The chat itself loads when it runs. */

import { settings } from '../../settings/settings-table.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseText } from '../options.ts';
import { addRuntimeFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { addTargetFlags, formatTargetFlags } from '../target-options.ts';

interface ChatFlags extends SessionFlags {
  readonly autoSh?: boolean;
  readonly autoPy?: boolean;
  readonly with?: string;
  readonly profile?: string;
  readonly json?: boolean;
}

export function addChat(define: DefineCommand, context: CommandContext, done: Done): void {
  const whose = { about: 'agent key that owns the kernel', otherwise: 'a new one, deleted at the end' };
  const command = define(HELP);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose)));
  addSetting(command, settings.autoSh)
    .option('--auto-py', 'run lines without a command as Python')
    .option('--with <agent>', 'send lines without a command to this coding agent, such as claude', parseText)
    .option('--profile <name>', 'one of your profiles for the agent; see `cella profiles`', parseText)
    .option('--json', 'print events and replies as JSON, one per line')
    .action(async (flags: ChatFlags) => {
      const { chat } = await import('../chat/chat-loop.ts');
      const request = {
        session: sessionOptions(flags, context.defaults),
        targetFlags: formatTargetFlags(flags),
        version: context.version,
        autoSh: flags.autoSh ?? context.defaults.autoSh,
        autoPy: flags.autoPy === true,
        agent: flags.with,
        profile: flags.profile,
        json: flags.json === true,
      };
      done(await chat(request, context));
    });
}

const HELP = `
Examples:
  $ cella chat                            a new agent key, deleted at the end
  $ cella chat --key ada                  continue with an agent key
  $ cella chat --auto-py                  every line is Python
  $ cella chat --with claude              lines without a command go to Claude; needs a server
  $ printf '/py x = 123\\n/py print(x)\\n' | cella chat

Commands of a chat:
  /py CODE           run Python; /py alone takes several lines, /py reset clears all variables
  /sh COMMAND        run a shell command in the same sandbox and folder; you confirm it first
  /agent [NAME]      choose the coding agent that plain lines go to, as --with does
  /cwd               show the working folder
  /vars              list variables
  /undo              go back to before the last cell, up to five times
  /checkpoint NAME   create a checkpoint; /checkpoints lists them, /restore NAME goes back
  /fork KEY          copy the kernel to another agent key
  /history [N]       show the last cells
  /deps, /skills, /tools, /artifacts   list them; /help NAME shows what else they do
  /help [COMMAND]    show all commands, or more about one
  /quit              leave, as Ctrl-D does

At a terminal, Tab completes, and Ctrl-C interrupts running code or clears the line. If stdin is not a
terminal, its lines are handled the same way, /sh needs --auto-sh, and the exit code is 1 if the last
line failed. docs/cli.md describes the commands and the JSON.`;
