/** `cella permissions`: pending permission requests of agents and tools, and the rules that decide without asking. */

import { type Command, Option } from 'commander';
import type { Client, NewRule, PermissionDecision, PermissionInfo, PermissionRule } from '../../client/index.ts';
import type { PermissionScope } from '../../protocol/agent-events.ts';
import { describePattern } from '../agent/permission-prompt.ts';
import { findSession } from '../backend/find-server.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo } from '../format.ts';
import { parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';

interface SessionFlag extends JsonServerFlags {
  readonly session?: string;
}

interface AllowFlags extends JsonServerFlags {
  readonly scope?: PermissionScope;
  readonly pattern?: string;
  readonly text?: string;
}

const scopes = ['once', 'session', 'always'] as const satisfies readonly PermissionScope[];

export function addPermissions(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.permissions);
  const run = serverRunner(context, done);
  const make = (name: string, summary: string, text: string, parent = group) =>
    addJsonServerFlags(defineCommand(parent, name, summary, text));
  const addSession = (command: Command, about: string) => command.option('--session <session>', about, parseText);
  const makeDecision = (name: string, summary: string, text: string) =>
    make(name, summary, text)
      .argument('<session>', 'id or agent key of the session', parseText)
      .argument('<permission>', 'id of the request, such as prm_k3v7q2mzp4abcdef', parseText);

  addSession(make('list', 'list pending requests', help.list), 'only requests of this session')
    .option('--all', 'include requests that have been decided')
    .action((flags: SessionFlag & { all?: boolean }) =>
      run(flags, (client, output) => list(client, { session: flags.session, all: flags.all === true }, output)),
    );
  makeDecision('allow', 'allow a request', help.allow)
    .addOption(new Option('--scope <scope>', 'how long it is allowed (default: once)').choices(scopes))
    .option('--pattern <pattern>', 'calls that the new rule allows, with --scope session or always', parseText)
    .option('--text <text>', 'answer to a question', parseText)
    .action((session: string, id: string, { scope = 'once', pattern, text, ...flags }: AllowFlags) => {
      const more = { pattern, text };
      const decision = { decision: 'allow', scope, ...more } as const;
      return run(flags, (client, output) => decide(client, { session, id, decision }, output));
    });
  makeDecision('deny', 'deny a request', help.deny)
    .option('--reason <text>', 'reason to give to the agent', parseText)
    .action((session: string, id: string, { reason, ...flags }: JsonServerFlags & { reason?: string }) => {
      const decision = { decision: 'deny', reason } as const;
      return run(flags, (client, output) => decide(client, { session, id, decision }, output));
    });
  const rules = defineCommand(group, 'rules', 'manage rules for what is allowed without asking', help.rules);
  const whose = 'rules of this session instead of yours';
  addSession(make('list', 'list rules', help.listRules, rules), whose).action((flags: SessionFlag) =>
    run(flags, (client, output) => listRules(client, flags.session, output)),
  );
  make('create', 'always allow uses of a tool that match a pattern', help.createRule, rules)
    .argument('<tool>', 'such as Bash, or tools.NAME for a tool that code calls', parseText)
    .argument('<pattern>', 'such as "ls *"', parseText)
    .action((tool: string, pattern: string, flags: JsonServerFlags) =>
      run(flags, (client, output) => createRule(client, { tool, pattern }, output)),
    );
  addSession(make('delete', 'delete a rule', help.deleteRule, rules), whose)
    .argument('<rule>', 'id of the rule', parseText)
    .action((id: string, flags: SessionFlag) =>
      run(flags, (client, output) => deleteRule(client, { id, session: flags.session }, output)),
    );
}

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'KEY' },
  { title: 'TOOL' },
  { title: 'REQUEST' },
  { title: 'STATE' },
  { title: 'ASKED', align: 'right' },
  { title: 'SESSION' },
];

const ruleColumns: readonly Column[] = [
  { title: 'ID' },
  { title: 'TOOL' },
  { title: 'PATTERN' },
  { title: 'CREATED', align: 'right' },
];

interface PermissionFilter {
  readonly session: string | undefined;
  /** Includes decided requests. */
  readonly all: boolean;
}

async function list(client: Client, { session, all }: PermissionFilter, report: CommandOutput): Promise<number> {
  const sessions = session === undefined ? client.sessions.all() : [await findSession(client, session)];
  const state = all ? {} : ({ state: 'pending' } as const);
  const permissions: (PermissionInfo & { agentKey: string })[] = [];
  for await (const { id, agentKey } of sessions) {
    const found = await (await client.session(id)).permissions(state);
    permissions.push(...found.map((permission) => ({ ...permission, agentKey })));
  }
  if (permissions.length === 0) await report.empty({ permissions }, 'There are no pending requests.');
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

const EVERYWHERE = 'You have no rules. --session SESSION shows those of a session.';

async function listRules(client: Client, session: string | undefined, report: CommandOutput): Promise<number> {
  const rules = await rulesOf(client, session);
  const rows = rules.map((rule) => [rule.id, rule.tool, describePattern(rule), formatAgo(rule.createdAt)]);
  if (rules.length === 0)
    await report.empty({ rules }, session === undefined ? EVERYWHERE : 'The session has no rules.');
  else await report.table({ rules }, ruleColumns, rows);
  return Exit.ok;
}

async function createRule(client: Client, rule: NewRule, report: CommandOutput): Promise<number> {
  const made = await client.permissionRules.create(rule);
  await report.success(made, `Always allowed: ${escapeControls(made.tool)} ${describePattern(made)} (${made.id})`);
  return Exit.ok;
}

async function deleteRule(
  client: Client,
  { id, session }: { id: string; session: string | undefined },
  report: CommandOutput,
): Promise<number> {
  if (session === undefined) await client.permissionRules.delete(id);
  else await (await client.session((await findSession(client, session)).id)).deletePermissionRule(id);
  await report.success({ deleted: id }, `Deleted ${id}.`);
  return Exit.ok;
}

async function rulesOf(client: Client, session: string | undefined): Promise<readonly PermissionRule[]> {
  if (session === undefined) return await client.permissionRules.list();
  return await (await client.session((await findSession(client, session)).id)).permissionRules();
}

function rowOf(permission: PermissionInfo & { readonly agentKey: string }): string[] {
  const { id, agentKey, session, tool, summary, state, resolution, requestedAt } = permission;
  const [what = ''] = summary.split('\n');
  return [id, agentKey, tool, what, resolution?.outcome ?? state, formatAgo(requestedAt), session];
}

const help = {
  permissions: `
Examples:
  $ cella permissions list                          pending requests in all your sessions
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'ls *'
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'use the staging host'
  $ cella permissions rules list

An agent, or a tool that requires approval, waits until somebody decides its request. These commands work
from any terminal, and the first decision counts. See docs/permissions.md.`,
  list: `
Examples:
  $ cella permissions list
  $ cella permissions list --session default --all
  $ cella permissions list --json | jq -r '.permissions[].id'`,
  allow: `
Examples:
  $ cella permissions allow default prm_k3v7q2mzp4abcdef
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope always
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --scope session --pattern 'ls *'
  $ cella permissions allow default prm_k3v7q2mzp4abcdef --text 'the second one'

--scope once allows this one request. session and always also create a rule that allows exactly the same
request, or all that match --pattern, without asking. --text answers a question of an agent.`,
  deny: `
Examples:
  $ cella permissions deny default prm_k3v7q2mzp4abcdef --reason 'not on a Friday'

The agent gets the reason and continues its turn.`,
  rules: `
Examples:
  $ cella permissions rules list
  $ cella permissions rules create Bash 'ls *'
  $ cella permissions rules create Edit '/agent/workspace/src/**'
  $ cella permissions rules delete rul_k3v7q2mzp4abcdef

Your rules apply to agents that you prompt and code that you run, in every session. With --session you
see and delete the rules of one session.`,
  listRules: `
Examples:
  $ cella permissions rules list
  $ cella permissions rules list --session default`,
  createRule: `
Examples:
  $ cella permissions rules create Bash 'ls *'
  $ cella permissions rules create Edit '/agent/workspace/src/**'

The rule applies to agents that you prompt and code that you run, in every session. docs/permissions.md
describes patterns.`,
  deleteRule: `
Examples:
  $ cella permissions rules delete rul_k3v7q2mzp4abcdef
  $ cella permissions rules delete rul_k3v7q2mzp4abcdef --session default`,
};
