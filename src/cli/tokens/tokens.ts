/** Tokens of a server: listed, made and revoked. */

import type { Client, Scope } from '../../client/index.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import type { Column } from '../table.ts';
import { agoToText, timeToText, toPlain } from '../texts.ts';

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'USER' },
  { title: 'NAME' },
  { title: 'SCOPES' },
  { title: 'MADE', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'ENDS' },
];

export interface TokenWish {
  readonly name: string;
  readonly user?: string;
  readonly scopes?: Scope[];
  /** From now on, in milliseconds. */
  readonly expires?: number;
}

export async function list(client: Client, user: string | undefined, report: Report): Promise<number> {
  const tokens = await client.tokens.list({ user });
  if (tokens.length === 0) await report.nothing({ tokens }, 'There is no token. `cella tokens create` makes one.');
  const rows = tokens.map(({ id, userName, name, scopes, createdAt, lastUsedAt, expiresAt }) => [
    id,
    userName,
    name,
    scopes.join(','),
    agoToText(createdAt),
    lastUsedAt === undefined ? '' : agoToText(lastUsedAt),
    expiresAt === undefined ? '' : timeToText(expiresAt),
  ]);
  if (tokens.length > 0) await report.table({ tokens }, columns, rows);
  return Exit.ok;
}

/** The secret alone is on stdout, for a file or a variable. */
export async function create(client: Client, wish: TokenWish, report: Report): Promise<number> {
  const { name, user, scopes, expires } = wish;
  const made = await client.tokens.create({
    name,
    ...(user === undefined ? {} : { user }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(expires === undefined ? {} : { expiresInMs: expires }),
  });
  const { id, userName, expiresAt, scopes: allowed } = made.info;
  await report.answer(made, made.token);
  const end = expiresAt === undefined ? '' : ` until ${timeToText(expiresAt)}`;
  const what = `It lets ${toPlain(userName)} in${end}, to ${allowed.join(', ')}.`;
  await report.aside(`${what}\nIt is shown this once. \`cella tokens revoke ${id}\` ends it.`);
  return Exit.ok;
}

export async function revoke(client: Client, id: string, report: Report): Promise<number> {
  await client.tokens.revoke(id);
  await report.done({ revoked: id }, `Revoked ${id}.`);
  return Exit.ok;
}
