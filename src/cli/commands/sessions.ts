/** `cella sessions`: the sessions of a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { findSession, type ServerFlags } from '../backend/find-server.ts';
import { Exit, UsageError } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import { type Column, CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { collect, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addServerFlags } from '../server-client.ts';

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
      const { state, label = [] } = flags;
      const wanted = { labels: labelsOf(label), ...(state === undefined ? {} : { state }) };
      await using client = await server(flags, context);
      done(await list(client, wanted, report(flags)));
    });
  named(addFlags(defineCommand(group, 'show', 'what is known of one', help.show))).action(
    async (name: string, flags: Flags) => {
      await using client = await server(flags, context);
      done(await show(client, name, report(flags)));
    },
  );
  named(addFlags(defineCommand(group, 'confirm', 'let the code of a fork use what is yours', help.confirm))).action(
    async (name: string, flags: Flags) => {
      await using client = await server(flags, context);
      done(await confirm(client, name, report(flags)));
    },
  );
  named(addFlags(defineCommand(group, 'rm', 'delete one with all that it has', help.rm))).action(
    async (name: string, flags: Flags) => {
      await using client = await server(flags, context);
      done(await remove(client, name, report(flags)));
    },
  );
  addLogs(named(addFlags(defineCommand(group, 'logs', 'what has happened in one', help.logs))), context, done);
  named(addServerFlags(defineCommand(group, 'attach', 'work in one, line by line', help.attach))).action(
    async (name: string, flags: ServerFlags) => {
      const { attach } = await import('./repl.ts');
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
      const { terminal } = await import('./session-terminal.ts');
      await using client = await server(flags, context);
      const own = context.terminal;
      done(await runAbortable(context, (signal) => terminal(client, { name, argv }, { terminal: own, signal })));
    });
}

function addLogs(command: Command, context: ProgramContext, done: Done): void {
  command
    .option('--after <number>', 'only events after this one', parseNumber)
    .option('-f, --follow', 'go on with what comes')
    .action(async (name: string, flags: LogsFlags) => {
      const { logs } = await import('./session-logs.ts');
      const { after = 0, follow = false, json = false } = flags;
      await using client = await server(flags, context);
      const { terminal } = context;
      done(await runAbortable(context, (signal) => logs(client, { name, after, follow, json }, { terminal, signal })));
    });
}

async function server(flags: ServerFlags, { defaults }: ProgramContext) {
  const { connectToServer } = await import('../backend/find-server.ts');
  return await connectToServer(flags, defaults);
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

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'AGENT' },
  { title: 'OWNER' },
  { title: 'STATE' },
  { title: 'EXECUTOR' },
  { title: 'SETTINGS CHANGED', align: 'right' },
  { title: 'LABELS' },
];

interface SessionFilter {
  readonly labels: Readonly<Record<string, string>>;
  readonly state?: SessionInfo['state'];
}

async function list(client: Client, { labels, state }: SessionFilter, report: CommandOutput): Promise<number> {
  const sessions: SessionInfo[] = [];
  for await (const session of client.sessions.all({ labels, ...(state === undefined ? {} : { state }) })) {
    sessions.push(session);
  }
  const any = state === undefined && Object.keys(labels).length === 0;
  const none = any ? 'There are no sessions. `cella run` makes one.' : 'There is no such session.';
  if (sessions.length === 0) await report.empty({ sessions }, none);
  else await report.table({ sessions }, columns, sessions.map(rowFor(client, sessions)));
  return Exit.ok;
}

/** Whose one is is told where not all are one's own; a column without any text is not shown. */
function rowFor({ me }: Client, all: readonly SessionInfo[]): (session: SessionInfo) => string[] {
  const mixed = all.some(({ ownerId }) => ownerId !== me.userId);
  return ({ id, agentKey, ownerId, state, settings, updatedAt, labels }) => {
    const owner = mixed ? nameIn(ownerId) : '';
    return [id, agentKey, owner, state, settings.executor ?? 'auto', formatAgo(updatedAt), labelsToText(labels)];
  };
}

/** An id of a user begins with the name. */
function nameIn(userId: string): string {
  return userId.replace(/~.*$/, '');
}

async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
  const session = await findSession(client, name);
  const { id, agentKey, state, queued, ownerId, labels, shares, settings, forkOf, createdAt, updatedAt } = session;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['id', id],
    ['agent', agentKey],
    ['name', session.name],
    ['state', queued > 0 ? `${state}, ${queued} waiting` : state],
    ['owner', ownerId],
    ['executor', settings.executor],
    ['labels', labelsToText(labels)],
    ['shared', shares.map(shareToText).join(', ')],
    ['fork of', forkOf],
    ['unconfirmed', session.unconfirmed && `its code reaches nothing of yours until: cella sessions confirm ${id}`],
    ['made', formatTime(createdAt)],
    ['settings changed', formatTime(updatedAt)],
  ];
  const width = Math.max(...facts.map(([title]) => title.length));
  const lines = facts.flatMap(([title, text]) => (text ? [`${title.padEnd(width)}  ${escapeControls(text)}`] : []));
  await report.result(session, lines.join('\n'));
  return Exit.ok;
}

async function confirm(client: Client, name: string, report: CommandOutput): Promise<number> {
  const found = await findSession(client, name);
  const { id } = found;
  if (!found.unconfirmed) {
    await report.success(
      found,
      `${id} needs no confirmation: it is no fork of another user’s session, or was confirmed before.`,
    );
    return Exit.ok;
  }
  const session = await client.sessions.confirm(id);
  await report.success(
    session,
    `Confirmed ${id}. Its code may use your tools, skills, artifacts, packages and agents.`,
  );
  return Exit.ok;
}

async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, agentKey } = await findSession(client, name);
  await client.sessions.delete(id);
  await report.success({ deleted: id, agentKey }, `Deleted ${id} (${escapeControls(agentKey)}).`);
  return Exit.ok;
}

function shareToText(share: SessionInfo['shares'][number]): string {
  const who = 'role' in share ? `every ${share.role}` : (share.userName ?? share.userId);
  return `${who} may ${share.right}`;
}

function labelsToText(labels: SessionInfo['labels']): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

const help = {
  sessions: `
Examples:
  $ cella sessions list                               those of the server on this machine
  $ cella sessions list --url https://cella.example   those of another
  $ cella sessions attach analyst                     work in one, line by line
  $ cella sessions terminal analyst                   a shell in its sandbox
  $ cella sessions logs analyst --follow              what happens there, as it happens

A session is named by its id or its agent key. Without --url or CELLA_URL it is the server that runs
on the data folder, by its socket; another needs a token, in --token-file or CELLA_TOKEN.`,
  list: `
Examples:
  $ cella sessions list --label team=risk --state idle
  $ cella sessions list --json | jq -r '.sessions[].id'

SETTINGS CHANGED is when the name, labels, shares or options last were, not when one was last used: \`cella ps\`
tells how long each of your agents has been idle.`,
  show: `
Examples:
  $ cella sessions show analyst
  $ cella sessions show ses_0123456789abcdef --json`,
  attach: `
Examples:
  $ cella sessions attach analyst
  $ echo 'print(6 * 7)' | cella sessions attach analyst

Leaving it, with Ctrl-D or exit, leaves the session as it is.`,
  terminal: `
Examples:
  $ cella sessions terminal analyst
  $ cella sessions terminal analyst -- python3 -q

It sees what the code sees: its workspace, its packages, its limits. It ends with the program there, and
with its exit code; whatever the program has started ends with it.`,
  logs: `
Examples:
  $ cella sessions logs analyst
  $ cella sessions logs analyst --after 120 --follow
  $ cella sessions logs analyst --json | jq -c 'select(.type == "result")'`,
  confirm: `
Examples:
  $ cella sessions confirm my-copy

A fork of another user's session holds that user's variables and code. Until you confirm it, its code reaches none of
your tools, skills, artifacts and packages, and no agent works in it. Look at it first:
  $ cella sessions terminal my-copy         its files, in its sandbox
  $ cella sessions logs my-copy             what ran in it

Confirming saves its variables and starts its kernel again, in a sandbox apart from the other user's.`,
  rm: `
Examples:
  $ cella sessions rm analyst

Everything of it is gone: kernel, names, workspace, events and checkpoints.`,
};
