/** The users of a server: listed, shown, made, changed, removed and let in. */

import type { Client, User } from '../../client/index.ts';
import type { Role } from '../../protocol/access-models.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { type QuotaFlags, quotasOf, quotasToText } from './quotas.ts';

const columns: readonly Column[] = [
  { title: 'NAME' },
  { title: 'ROLE' },
  { title: 'STATE' },
  { title: 'MADE', align: 'right' },
  { title: 'QUOTAS' },
];

export interface UserChange extends QuotaFlags {
  readonly role?: Role;
}

export async function list(client: Client, report: CommandOutput): Promise<number> {
  const users: User[] = [];
  for await (const user of client.users.all()) users.push(user);
  const rows = users.map(({ name, role, disabled, createdAt, quotas }) => [
    name,
    role,
    disabled ? 'disabled' : '',
    formatAgo(createdAt),
    quotasToText(quotas),
  ]);
  await report.table({ users }, columns, rows);
  return Exit.ok;
}

export async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
  const user = await client.users.get(name);
  await report.result(user, linesOf(user).join('\n'));
  return Exit.ok;
}

export async function add(client: Client, name: string, flags: UserChange, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const quotas = quotasOf(flags);
  const user = await client.users.create({ name, ...(role ? { role } : {}), ...(quotas ? { quotas } : {}) });
  const next = `\`cella users login ${user.name}\` makes a link for it, \`cella tokens create --user ${user.name} --name NAME\` a token.`;
  await report.success(user, `Made ${user.name}, a ${user.role}.\n${next}`);
  return Exit.ok;
}

export async function set(client: Client, name: string, flags: UserChange, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const { quotas: before, id } = await client.users.get(name);
  const quotas = quotasOf(flags, before);
  if (role === undefined && quotas === undefined) {
    throw new UsageError(
      'There is nothing to change.',
      'Give --role, --sessions, --kernels, --memory, --executions or --storage.',
    );
  }
  const user = await client.users.update(id, { ...(role ? { role } : {}), ...(quotas ? { quotas } : {}) });
  await report.success(user, linesOf(user).join('\n'));
  return Exit.ok;
}

export async function turn(
  client: Client,
  name: string,
  verb: 'disable' | 'enable',
  report: CommandOutput,
): Promise<number> {
  const user = await client.users.update(name, { disabled: verb === 'disable' });
  await report.success(user, `${user.name} is ${verb}d.`);
  return Exit.ok;
}

export async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  await client.users.delete(id);
  await report.success({ deleted: id, name: called }, `Removed ${called} with its sessions and tokens.`);
  return Exit.ok;
}

export async function logout(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  await client.users.logout(called);
  await report.success({ loggedOut: id, name: called }, `All logins of ${called} have ended.`);
  return Exit.ok;
}

/** The link alone is on stdout. */
export async function login(
  client: Client,
  name: string | undefined,
  url: string,
  report: CommandOutput,
): Promise<number> {
  const { path, expiresAt } = await client.users.loginCode(name);
  const link = new URL(path, url).href;
  await report.result({ url: link, expiresAt }, link);
  await report.note(`It logs ${escapeControls(name ?? client.me.userName)} in, once, until ${formatTime(expiresAt)}.`);
  return Exit.ok;
}

function linesOf({ id, name, role, disabled, quotas, createdAt }: User): string[] {
  const facts: readonly (readonly [string, string])[] = [
    ['name', name],
    ['id', id],
    ['role', role],
    ['state', disabled ? 'disabled' : 'enabled'],
    ['quotas', quotasToText(quotas) || 'none of its own'],
    ['made', formatTime(createdAt)],
  ];
  return facts.map(([title, text]) => `${title.padEnd(7)} ${escapeControls(text)}`);
}
