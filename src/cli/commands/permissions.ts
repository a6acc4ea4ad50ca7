/** `cella permissions`: pending permission requests of agents and tools, and the rules that need no question. */

import { type Command, Option } from 'commander';
import type {
  Client,
  NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
  SessionInfo,
} from '../../client/index.ts';
import type { PermissionScope } from '../../protocol/permission.ts';
import { describePattern } from '../agent/permission-prompt.ts';
import { findSession } from '../backend/find-server.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatAgo } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';

interface SessionFlag extends JsonServerFlags {
  readonly session?: string;
}

interface AllowFlags extends JsonServerFlags {
  readonly scope?: PermissionScope;
  readonly pattern?: string;
  readonly text?: string;
}

const scopes = ['once', 'session', 'always'] as const satisfies readonly PermissionScope[];

export function addPermissions(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.permissions);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string, parent = group) =>
    addJsonServerFlags(defineCommand(parent, name, summary, text));
  const ofSession = (command: Command, about: string) => command.option('--session <session>', about, parseText);
  const one = (command: Command) =>
    command
      .argument('<session>', 'its id or agent key', parseText)
      .argument('<permission>', 'its id, such as prm_k3v7q2mzp4abcdef', parseText);

  ofSession(make('list', 'what waits for a decision', help.list), 'only those of this one')
    .option('--all', 'also what was decided before')
    .action(async (flags: SessionFlag & { all?: boolean }) =>
      at(flags, async (client, report) => list(client, { session: flags.session, all: flags.all === true }, report)),
    );
  one(make('allow', 'allow it', help.allow))
    .addOption(new Option('--scope <scope>', 'for how long').choices(scopes))
    .option('--pattern <pattern>', 'what else is allowed, with --scope session or always', parseText)
    .option('--text <text>', 'the answer to a question', parseText)
    .action(async (session: string, id: string, { scope = 'once', pattern, text, ...flags }: AllowFlags) => {
      const more = { ...(pattern === undefined ? {} : { pattern }), ...(text === undefined ? {} : { text }) };
      const decision = { decision: 'allow', scope, ...more } as const;
      await at(flags, async (client, report) => decide(client, { session, id, decision }, report));
    });
  one(make('deny', 'deny it', help.deny))
    .option('--reason <text>', 'what the agent is told', parseText)
    .action(async (session: string, id: string, { reason, ...flags }: JsonServerFlags & { reason?: string }) => {
      const decision = { decision: 'deny', ...(reason === undefined ? {} : { reason }) } as const;
      await at(flags, async (client, report) => decide(client, { session, id, decision }, report));
    });
  const rules = defineCommand(group, 'rules', 'what is allowed without a question', help.rules);
  const whose = 'those of this session instead of yours';
  ofSession(make('list', 'show them', help.rules, rules), whose).action(async (flags: SessionFlag) =>
    at(flags, async (client, report) => listRules(client, flags.session, report)),
  );
  make('add', 'allow a tool for good where its use fits a pattern', help.rules, rules)
    .argument('<tool>', 'such as Bash, or tools.NAME for a tool of code', parseText)
    .argument('<pattern>', 'such as "git status" or "npm test *"', parseText)
    .action(async (tool: string, pattern: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => addRule(client, { tool, pattern }, report)),
    );
  ofSession(make('rm', 'allow it no longer', help.rules, rules), whose)
    .argument('<rule>', 'its id', parseText)
    .action(async (id: string, flags: SessionFlag) =>
      at(flags, async (client, report) => removeRule(client, { id, session: flags.session }, report)),
    );
}

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'AGENT' },
  { title: 'TOOL' },
  { title: 'WHAT' },
  { title: 'STATE' },
  { title: 'ASKED', align: 'right' },
  { title: 'SESSION' },
];

const ruleColumns: readonly Column[] = [
  { title: 'ID' },
  { title: 'TOOL' },
  { title: 'PATTERN' },
  { title: 'MADE', align: 'right' },
];

interface PermissionFilter {
  readonly session: string | undefined;
  /** Also those that are over. */
  readonly all: boolean;
}

async function list(client: Client, { session, all }: PermissionFilter, report: CommandOutput): Promise<number> {
  const sessions = session === undefined ? await everySession(client) : [await findSession(client, session)];
  const state = all ? {} : ({ state: 'pending' } as const);
  const permissions: (PermissionInfo & { agentKey: string })[] = [];
  for (const { id, agentKey } of sessions) {
    const found = await (await client.session(id)).permissions(state);
    permissions.push(...found.map((permission) => ({ ...permission, agentKey })));
  }
  if (permissions.length === 0) await report.empty({ permissions }, 'Nothing waits for a decision.');
  else await report.table({ permissions }, columns, permissions.map(rowOf));
  return Exit.ok;
}

async function decide(
  client: Client,
  { session, id, decision }: { session: string; id: string; decision: PermissionDecision },
  report: CommandOutput,
): Promise<number> {
  const found = await client.session((await findSession(client, session)).id);
  const permission = await found.decidePermission(id, decision);
  const done = decision.decision === 'allow' ? 'Allowed' : 'Denied';
  await report.success(permission, `${done}: ${escapeControls(permission.tool)} ${escapeControls(permission.summary)}`);
  return Exit.ok;
}

const EVERYWHERE = 'No rule holds in all sessions. `--session SESSION` shows those of one.';

async function listRules(client: Client, session: string | undefined, report: CommandOutput): Promise<number> {
  const rules = await rulesOf(client, session);
  const rows = rules.map((rule) => [rule.id, rule.tool, describePattern(rule), formatAgo(rule.createdAt)]);
  if (rules.length === 0)
    await report.empty({ rules }, session === undefined ? EVERYWHERE : 'The session has no rule of its own.');
  else await report.table({ rules }, ruleColumns, rows);
  return Exit.ok;
}

async function addRule(client: Client, rule: NewRule, report: CommandOutput): Promise<number> {
  const made = await client.permissionRules.add(rule);
  await report.success(made, `Allowed for good: ${escapeControls(made.tool)} ${describePattern(made)} (${made.id})`);
  return Exit.ok;
}

async function removeRule(
  client: Client,
  { id, session }: { id: string; session: string | undefined },
  report: CommandOutput,
): Promise<number> {
  if (session === undefined) await client.permissionRules.delete(id);
  else await (await client.session((await findSession(client, session)).id)).deletePermissionRule(id);
  await report.success({ removed: id }, `Removed ${id}.`);
  return Exit.ok;
}

async function rulesOf(client: Client, session: string | undefined): Promise<readonly PermissionRule[]> {
  if (session === undefined) return await client.permissionRules.list();
  return await (await client.session((await findSession(client, session)).id)).permissionRules();
}

async function everySession(client: Client): Promise<SessionInfo[]> {
  const all: SessionInfo[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await client.sessions.list({ limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    all.push(...page.sessions);
    cursor = page.next;
  }
  return all;
}

function rowOf(permission: PermissionInfo & { readonly agentKey: string }): string[] {
  const { id, agentKey, session, tool, summary, state, resolution, requestedAt } = permission;
  const [what = ''] = summary.split('\n');
  return [id, agentKey, tool, what, resolution?.outcome ?? state, formatAgo(requestedAt), session];
}

const help = {
  permissions: `
Examples:
  $ cella permissions list                          what waits for you, in all your sessions
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'npm test *'
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'use the staging host'
  $ cella permissions rules list

What an agent, or a tool that requires approval, waits for can be decided here while it runs elsewhere.
The first decision counts. docs/permissions.md tells what patterns mean.`,
  list: `
Examples:
  $ cella permissions list
  $ cella permissions list --session default --all
  $ cella permissions list --json | jq -r '.permissions[].id'`,
  allow: `
Examples:
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope always
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'git log *'
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --text 'the second one'

--scope once, the default, is for this time. session and always make a rule: for the very same again,
or for what --pattern says. --text is the answer to a question.`,
  deny: `
Examples:
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'not on a Friday'

The agent is told the reason, and goes on.`,
  rules: `
Examples:
  $ cella permissions rules list
  $ cella permissions rules add Bash 'git status'
  $ cella permissions rules add Edit '/agent/workspace/src/**'
  $ cella permissions rules rm rul_k3v7q2mzp4abcdef

Rules of yours hold for agents that you prompt and code that you run, in every session. With --session
they are those that were made for that session alone.`,
};
