/** Credentials at a server: set, listed, deleted and encrypted anew. */

import type { Client } from '../../client/index.ts';
import type { Provider } from '../../protocol/enums.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo } from '../format.ts';
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
  report: CommandOutput,
): Promise<number> {
  const value = await readSecret(report.terminal, `Key for ${provider}: `);
  if (value === undefined) return Exit.interrupted;
  if (value === '') {
    throw new UsageError('There is no key on stdin.', `Give it there: cella credentials set ${provider} < key-file`);
  }
  const info = await client.credentials.set(provider, value, { user });
  await report.success(
    info,
    `Kept the key for ${provider} of ${escapeControls(info.userName)}. It is not shown again.`,
  );
  return Exit.ok;
}

export async function list(client: Client, user: string | undefined, report: CommandOutput): Promise<number> {
  const credentials = await client.credentials.list({ user });
  const rows = credentials.map(({ provider, userName, createdAt, updatedAt }) => [
    provider,
    userName,
    formatAgo(createdAt),
    formatAgo(updatedAt),
  ]);
  if (rows.length > 0) await report.table({ credentials }, columns, rows);
  else await report.empty({ credentials }, 'There is no credential. `cella credentials set anthropic` keeps one.');
  return Exit.ok;
}

export async function remove(
  client: Client,
  provider: Provider,
  user: string | undefined,
  report: CommandOutput,
): Promise<number> {
  await client.credentials.delete(provider, { user });
  await report.success({ deleted: provider }, `Deleted the key for ${provider}.`);
  return Exit.ok;
}

export async function rotate(client: Client, report: CommandOutput): Promise<number> {
  const rotation = await client.credentials.rotate();
  const { rotated, left } = rotation;
  const what = rotated === 1 ? 'One credential is' : `${rotated} credentials are`;
  await report.success(rotation, `${what} encrypted anew.`);
  await report.warn(
    left.map(({ userId, provider }) => `No key at hand opens ${provider} of ${escapeControls(userId)}.`),
  );
  return left.length === 0 ? Exit.ok : Exit.failed;
}
