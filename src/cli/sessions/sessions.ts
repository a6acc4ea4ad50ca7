/** The sessions of a server, listed, shown and deleted. */

import type { Client } from '../../client/index.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { findSession } from '../backend/find-server.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'AGENT' },
  { title: 'OWNER' },
  { title: 'STATE' },
  { title: 'EXECUTOR' },
  { title: 'SETTINGS CHANGED', align: 'right' },
  { title: 'LABELS' },
];

export interface Wanted {
  readonly labels: Readonly<Record<string, string>>;
  readonly state?: SessionInfo['state'];
}

export async function list(client: Client, { labels, state }: Wanted, report: CommandOutput): Promise<number> {
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

export async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
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

export async function confirm(client: Client, name: string, report: CommandOutput): Promise<number> {
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

export async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
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
