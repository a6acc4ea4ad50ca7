/** `cella sessions`: what lives at a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { ServerFlags } from '../backend/find-server.ts';
import { UsageError } from '../command-errors.ts';
import { CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addServerFlags } from '../server-client.ts';
import { collect } from '../session-options.ts';
import { help } from './help.ts';

interface Flags extends ServerFlags {
  readonly json?: boolean;
}

interface ListFlags extends Flags {
  readonly label?: readonly string[];
  readonly state?: SessionInfo['state'];
}

interface LogsFlags extends Flags {
  readonly after?: number;
  readonly follow?: boolean;
}

export function addSessions(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.sessions);
  const report = (flags: Flags) => new CommandOutput(context.terminal, { json: flags.json === true });
  const named = (command: Command) => command.argument('<session>', 'its id or agent key', parseText);
  addFlags(defineCommand(group, 'list', 'those that you may see', help.list))
    .option('--label <name=value>', 'only those with this label; may be repeated', collect)
    .addOption(new Option('--state <state>', 'only these').choices(['running', 'idle', 'hibernated']))
    .action(async (flags: ListFlags) => {
      const { list } = await import('./sessions.ts');
      const { state, label = [] } = flags;
      const wanted = { labels: labelsOf(label), ...(state === undefined ? {} : { state }) };
      await using client = await server(flags, context);
      done(await list(client, wanted, report(flags)));
    });
  named(addFlags(defineCommand(group, 'show', 'what is known of one', help.show))).action(
    async (name: string, flags: Flags) => {
      const { show } = await import('./sessions.ts');
      await using client = await server(flags, context);
      done(await show(client, name, report(flags)));
    },
  );
  named(addFlags(defineCommand(group, 'confirm', 'let the code of a fork use what is yours', help.confirm))).action(
    async (name: string, flags: Flags) => {
      const { confirm } = await import('./sessions.ts');
      await using client = await server(flags, context);
      done(await confirm(client, name, report(flags)));
    },
  );
  named(addFlags(defineCommand(group, 'rm', 'delete one with all that it has', help.rm))).action(
    async (name: string, flags: Flags) => {
      const { remove } = await import('./sessions.ts');
      await using client = await server(flags, context);
      done(await remove(client, name, report(flags)));
    },
  );
  addLogs(named(addFlags(defineCommand(group, 'logs', 'what has happened in one', help.logs))), context, done);
  named(addServerFlags(defineCommand(group, 'attach', 'work in one, line by line', help.attach))).action(
    async (name: string, flags: ServerFlags) => {
      const { attach } = await import('./attach.ts');
      await using client = await server(flags, context);
      done(await attach(client, name, context));
    },
  );
  addTerminal(
    named(addServerFlags(defineCommand(group, 'terminal', 'a shell in the sandbox of one', help.terminal))),
    context,
    done,
  );
}

function addTerminal(command: Command, context: ProgramContext, done: Done): void {
  command
    .argument('[program...]', 'a program and its arguments, instead of the shell')
    .action(async (name: string, argv: readonly string[], flags: ServerFlags) => {
      const [{ terminal }, { runAbortable: stoppable }] = await Promise.all([
        import('./terminal.ts'),
        import('../command-lifecycle.ts'),
      ]);
      await using client = await server(flags, context);
      const own = context.terminal;
      done(await stoppable(context, (signal) => terminal(client, { name, argv }, { terminal: own, signal })));
    });
}

function addLogs(command: Command, context: ProgramContext, done: Done): void {
  command
    .option('--after <number>', 'only events after this one', parseNumber)
    .option('-f, --follow', 'go on with what comes')
    .action(async (name: string, flags: LogsFlags) => {
      const [{ logs }, { runAbortable: stoppable }] = await Promise.all([
        import('./logs.ts'),
        import('../command-lifecycle.ts'),
      ]);
      const { after = 0, follow = false, json = false } = flags;
      await using client = await server(flags, context);
      const { terminal } = context;
      done(await stoppable(context, (signal) => logs(client, { name, after, follow, json }, { terminal, signal })));
    });
}

async function server(flags: ServerFlags, { defaults }: ProgramContext) {
  const { connectToServer: connectTo } = await import('../backend/find-server.ts');
  return await connectTo(flags, defaults);
}

function addFlags(command: Command): Command {
  return addServerFlags(command).option('--json', 'print JSON');
}

function labelsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map((label) => {
      const [name = '', ...value] = label.split('=');
      if (name === '' || value.length === 0) throw new UsageError(`${label} is no label.`, 'Write --label name=value.');
      return [name, value.join('=')];
    }),
  );
}

function parseNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be the number of an event.');
}
