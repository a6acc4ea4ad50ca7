/** What waits for somebody's leave at a server: listed and decided; and the rules that decide by themselves. */

import type {
  Client,
  NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
  SessionInfo,
} from '../../client/index.ts';
import { describePattern } from '../agent/permission-prompt.ts';
import { findSession } from '../backend/find-server.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo } from '../format.ts';

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

export interface ListWish {
  readonly session: string | undefined;
  /** Also those that are over. */
  readonly all: boolean;
}

export async function list(client: Client, { session, all }: ListWish, report: CommandOutput): Promise<number> {
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

export async function decide(
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

export async function listRules(client: Client, session: string | undefined, report: CommandOutput): Promise<number> {
  const rules = await rulesOf(client, session);
  const rows = rules.map((rule) => [rule.id, rule.tool, describePattern(rule), formatAgo(rule.createdAt)]);
  if (rules.length === 0)
    await report.empty({ rules }, session === undefined ? EVERYWHERE : 'The session has no rule of its own.');
  else await report.table({ rules }, ruleColumns, rows);
  return Exit.ok;
}

export async function addRule(client: Client, rule: NewRule, report: CommandOutput): Promise<number> {
  const made = await client.permissionRules.add(rule);
  await report.success(made, `Allowed for good: ${escapeControls(made.tool)} ${describePattern(made)} (${made.id})`);
  return Exit.ok;
}

export async function removeRule(
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
