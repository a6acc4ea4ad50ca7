/** `cella sessions`: the sessions of a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { findSession, type ServerFlags } from '../backend/find-server.ts';
import { UsageError } from '../command-errors.ts';
import { runAbortable } from '../command-lifecycle.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { collect, parseText } from '../options.ts';
import { addJsonServerFlags, addServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';
import { exec } from './session-exec.ts';
import { logs } from './session-logs.ts';

interface ListFlags extends JsonServerFlags {
  readonly label?: readonly string[];
  readonly state?: SessionInfo['state'];
}

interface LogsFlags extends JsonServerFlags {
  readonly after?: number;
  readonly follow?: boolean;
}

export function addSessions(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.sessions);
  const { terminal } = context;
  const run = serverRunner(context, done);
  const addSession = (command: Command) => command.argument('<session>', 'id or agent key of the session', parseText);
  const make = (name: string, summary: string, text: string) =>
    addSession(addJsonServerFlags(defineCommand(group, name, summary, text)));

  addJsonServerFlags(defineCommand(group, 'list', 'list the sessions that you may see', help.list))
    .option('--label <name=value>', 'only sessions with this label; may be repeated', collect)
    .addOption(new Option('--state <state>', 'only sessions in this state').choices(['running', 'idle', 'hibernated']))
    .action((flags: ListFlags) => run(flags, (client, output) => list(client, flags, output)));
  make('show', 'show a session', help.show).action((name: string, flags: JsonServerFlags) =>
    run(flags, (client, output) => show(client, name, output)),
  );
  make('confirm', "let a fork of another user's session use your data", help.confirm).action(
    (name: string, flags: JsonServerFlags) => run(flags, (client, output) => confirm(client, name, output)),
  );
  make('delete', 'delete a session with everything in it', help.delete).action((name: string, flags: JsonServerFlags) =>
    run(flags, (client, output) => remove(client, name, output)),
  );
  addSession(
    addJsonServerFlags(
      defineCommand(group, 'logs', 'show what has happened in a session', help.logs),
      'print one JSON event per line',
    ),
  )
    .option('--after <number>', 'only events after this one', parseNumber)
    .option('-f, --follow', 'continue with new events')
    .action(async (name: string, flags: LogsFlags) => {
      const { after = 0, follow = false, json = false } = flags;
      await run(flags, (client) =>
        runAbortable(context, (signal) => logs(client, { name, after, follow, json }, { terminal, signal })),
      );
    });
  addSession(addServerFlags(defineCommand(group, 'attach', 'open a Python prompt in a session', help.attach))).action(
    async (name: string, flags: ServerFlags) => {
      const { attach } = await import('./repl.ts');
      await run(flags, (client) => attach(client, name, context));
    },
  );
  addSession(
    addServerFlags(defineCommand(group, 'exec', 'run a shell or a program in the sandbox of a session', help.exec)),
  )
    .argument('[program...]', 'program with its arguments (default: a shell)')
    .action(async (name: string, argv: readonly string[], flags: ServerFlags) => {
      await run(flags, (client) =>
        runAbortable(context, (signal) => exec(client, { name, argv }, { terminal, signal })),
      );
    });
}

function labelsOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map((label) => {
      const [name = '', ...value] = label.split('=');
      if (name === '' || value.length === 0)
        throw new UsageError(`${label} is not a label.`, 'Write --label name=value.');
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
  { title: 'KEY' },
  { title: 'OWNER' },
  { title: 'STATE' },
  { title: 'EXECUTOR' },
  { title: 'SETTINGS CHANGED', align: 'right' },
  { title: 'LABELS' },
];

async function list(client: Client, { label = [], state }: ListFlags, report: CommandOutput): Promise<number> {
  const labels = labelsOf(label);
  const sessions: SessionInfo[] = [];
  for await (const session of client.sessions.all({ labels, state })) {
    sessions.push(session);
  }
  const any = state === undefined && label.length === 0;
  const none = any ? 'There are no sessions. `cella run` creates one.' : 'No session matches.';
  if (sessions.length === 0) await report.empty({ sessions }, none);
  else await report.table({ sessions }, columns, sessions.map(rowFor(client, sessions)));
  return Exit.ok;
}

/** Sets the owner only if some sessions belong to others: the table omits a column without text. */
function rowFor({ me }: Client, all: readonly SessionInfo[]): (session: SessionInfo) => string[] {
  const mixed = all.some(({ ownerId }) => ownerId !== me.userId);
  return ({ id, agentKey, ownerId, state, settings, updatedAt, labels }) => {
    const owner = mixed ? nameIn(ownerId) : '';
    return [id, agentKey, owner, state, settings.executor ?? 'auto', formatAgo(updatedAt), labelsToText(labels)];
  };
}

/** A user's id begins with the name. */
function nameIn(userId: string): string {
  return userId.replace(/~.*$/, '');
}

async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
  const session = await findSession(client, name);
  const { id, agentKey, state, queued, ownerId, labels, shares, settings, forkOf, createdAt, updatedAt } = session;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['id', id],
    ['agent key', agentKey],
    ['name', session.name],
    ['state', queued > 0 ? `${state}, ${queued} waiting` : state],
    ['owner', ownerId],
    ['executor', settings.executor],
    ['labels', labelsToText(labels)],
    ['shared', shares.map(shareToText).join(', ')],
    ['fork of', forkOf],
    [
      'unconfirmed',
      session.unconfirmed && `its code cannot use your data; to allow it, run: cella sessions confirm ${id}`,
    ],
    ['created', formatTime(createdAt)],
    ['settings changed', formatTime(updatedAt)],
  ];
  await report.facts(session, facts);
  return Exit.ok;
}

async function confirm(client: Client, name: string, report: CommandOutput): Promise<number> {
  const found = await findSession(client, name);
  const { id } = found;
  if (!found.unconfirmed) {
    await report.success(
      found,
      `${id} needs no confirmation: it is not a fork of another user's session, or was confirmed before.`,
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
  $ cella sessions list                               sessions of the server on the data folder
  $ cella sessions list --url https://cella.example   sessions of another server
  $ cella sessions attach analyst                     a Python prompt in a session
  $ cella sessions exec analyst                       a shell in its sandbox
  $ cella sessions logs analyst --follow              what happens there, as it happens

A session is named by its id or its agent key. Without --url or CELLA_URL, the commands use the server on
the data folder, through its socket. Another server needs a token in --token-file or CELLA_TOKEN. See
docs/server.md.`,
  list: `
Examples:
  $ cella sessions list --label team=risk --state idle
  $ cella sessions list --json | jq -r '.sessions[].id'

SETTINGS CHANGED is when the name, labels, shares or options last changed, not when the session was last
used. \`cella ps\` shows how long each kernel has been idle.`,
  show: `
Examples:
  $ cella sessions show analyst
  $ cella sessions show ses_0123456789abcdef --json`,
  attach: `
Examples:
  $ cella sessions attach analyst
  $ echo 'print(6 * 7)' | cella sessions attach analyst

Works like \`cella repl\`. Ctrl-D or exit leaves; the session continues.`,
  exec: `
Examples:
  $ cella sessions exec analyst
  $ cella sessions exec analyst -- python3 -q

The program sees what the code of the session sees: workspace, packages and limits. The command exits
with the exit code of the program. Processes that the program has started end with it.`,
  logs: `
Examples:
  $ cella sessions logs analyst
  $ cella sessions logs analyst --after 120 --follow
  $ cella sessions logs analyst --json | jq -c 'select(.type == "result")'
`,
  confirm: `
Examples:
  $ cella sessions confirm my-copy

A fork of another user's session has that user's variables and code. Until you confirm it, its code cannot
use your tools, skills, artifacts and packages, and no agent works in it. Look at it first:
  $ cella sessions exec my-copy             its files, in its sandbox
  $ cella sessions logs my-copy             what ran in it

Confirming saves its variables and starts its kernel again, in a separate sandbox.`,
  delete: `
Examples:
  $ cella sessions delete analyst

Deletes the kernel, variables, workspace, events and checkpoints of the session.`,
};
