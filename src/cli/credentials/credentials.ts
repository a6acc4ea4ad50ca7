/** Credentials at a server: set, listed, deleted and encrypted anew. */

import type { Client } from '../../client/index.ts';
import type { Provider } from '../../protocol/enums.ts';
import { Exit, UsageError } from '../exit.ts';
import type { Report } from '../report.ts';
import type { Column } from '../table.ts';
import { agoToText, toPlain } from '../texts.ts';
import { readSecret } from './read-secret.ts';

const columns: readonly Column[] = [
  { title: 'PROVIDER' },
  { title: 'USER' },
  { title: 'MADE', align: 'right' },
  { title: 'SET', align: 'right' },
];

export async function set(
  client: Client,
  provider: Provider,
  user: string | undefined,
  report: Report,
): Promise<number> {
  const value = await readSecret(report.terminal, `Key for ${provider}: `);
  if (value === undefined) return Exit.interrupted;
  if (value === '') {
    throw new UsageError('There is no key on stdin.', `Give it there: cella credentials set ${provider} < key-file`);
  }
  const info = await client.credentials.set(provider, value, { user });
  await report.done(info, `Kept the key for ${provider} of ${toPlain(info.userName)}. It is not shown again.`);
  return Exit.ok;
}

export async function list(client: Client, user: string | undefined, report: Report): Promise<number> {
  const credentials = await client.credentials.list({ user });
  const rows = credentials.map(({ provider, userName, createdAt, updatedAt }) => [
    provider,
    userName,
    agoToText(createdAt),
    agoToText(updatedAt),
  ]);
  if (rows.length > 0) await report.table({ credentials }, columns, rows);
  else await report.nothing({ credentials }, 'There is no credential. `cella credentials set anthropic` keeps one.');
  return Exit.ok;
}

export async function remove(
  client: Client,
  provider: Provider,
  user: string | undefined,
  report: Report,
): Promise<number> {
  await client.credentials.delete(provider, { user });
  await report.done({ deleted: provider }, `Deleted the key for ${provider}.`);
  return Exit.ok;
}

export async function rotate(client: Client, report: Report): Promise<number> {
  const rotation = await client.credentials.rotate();
  const { rotated, left } = rotation;
  const what = rotated === 1 ? 'One credential is' : `${rotated} credentials are`;
  await report.done(rotation, `${what} encrypted anew.`);
  await report.warn(left.map(({ userId, provider }) => `No key at hand opens ${provider} of ${toPlain(userId)}.`));
  return left.length === 0 ? Exit.ok : Exit.failed;
}
