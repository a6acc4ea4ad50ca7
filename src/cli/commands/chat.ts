/** `cella chat`: its flags and help. The chat itself loads when it runs. */

import { settings } from '../../settings/settings-table.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { addSetting, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addRuntimeFlags, type SessionFlags, sessionOptions } from '../session-flags.ts';
import { addTargetFlags, formatTargetFlags } from '../target-options.ts';

interface ChatFlags extends SessionFlags {
  readonly autoSh?: boolean;
  readonly autoPy?: boolean;
  readonly with?: string;
  readonly profile?: string;
  readonly json?: boolean;
}

export function addChat(define: DefineCommand, context: ProgramContext, done: Done): void {
  const whose = { about: 'whose kernel it is', otherwise: 'an agent of its own, dropped at the end' };
  const command = define(HELP);
  addRuntimeFlags(addTargetFlags(addSetting(command, settings.agentKey, whose)));
  addSetting(command, settings.autoSh)
    .option('--auto-py', 'take lines that are no command as Python')
    .option('--with <agent>', 'take them as prompts for this coding agent, such as claude', parseText)
    .option('--profile <name>', 'a profile of yours for it; see `cella profiles`', parseText)
    .option('--json', 'print events and answers as JSON, one a line')
    .action(async (flags: ChatFlags) => {
      const { chat } = await import('../chat/chat-loop.ts');
      const request = {
        session: sessionOptions(flags, context.defaults),
        placeFlags: formatTargetFlags(flags),
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
  $ cella chat                            an agent of its own, dropped at the end
  $ cella chat --agent ada                go on with an agent
  $ cella chat --auto-py                  every line is Python
  $ printf '/py x = 123\\n/py print(x)\\n' | cella chat

Commands of a chat:
  /py CODE           run Python; /py alone takes several lines, /py reset clears all names
  /sh COMMAND        run a shell command in the same sandbox and folder; it is confirmed first
  /agent [NAME]      choose the coding agent that plain lines go to, as --with does
  /cwd               tell the folder the code works in
  /vars              list the names of the code
  /undo              go back to before the last cell, up to five times
  /checkpoint NAME   keep this moment; /checkpoints lists them, /restore NAME goes back
  /fork KEY          make another agent with the same names
  /history [N]       show the last cells
  /deps, /skills, /tools, /artifacts   list them; /help NAME tells what else they do
  /help [COMMAND]    show all commands, or more about one
  /quit              leave, as Ctrl-D does

At a terminal, Tab completes, and Ctrl-C interrupts what runs or clears the line.
Where stdin is no terminal its lines are taken the same way, /sh needs --auto-sh, and the exit
code is 1 if the last line failed.`;
