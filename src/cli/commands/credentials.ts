/** `cella credentials`: keys of model providers, which agents use and never see. */

import { type Command, InvalidArgumentError } from 'commander';
import type { Client } from '../../client/index.ts';
import { type Provider, providers } from '../../protocol/enums.ts';
import { UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo, formatCount } from '../format.ts';
import { parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

interface CredentialFlags extends JsonServerFlags {
  readonly user?: string;
}

export function addCredentials(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.credentials);
  const run = serverRunner(context, done);
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const addUser = (command: Command) => command.option('--user <name>', 'another user, for administrators', parseText);
  const addProvider = (command: Command) => command.argument('<provider>', providers.join(', '), parseProvider);

  addProvider(addUser(make('set', 'store a key, read from stdin or a prompt', help.set))).action(
    (provider: Provider, flags: CredentialFlags) =>
      run(flags, (client, output) => set(client, provider, flags.user, output)),
  );
  addUser(make('list', 'list providers that have a key', help.list)).action((flags: CredentialFlags) =>
    run(flags, (client, output) => list(client, flags.user, output)),
  );
  addProvider(addUser(make('delete', 'delete a key', help.delete))).action(
    (provider: Provider, flags: CredentialFlags) =>
      run(flags, (client, output) => remove(client, provider, flags.user, output)),
  );
  make('rotate', 'encrypt all keys again, for administrators', help.rotate).action((flags: JsonServerFlags) =>
    run(flags, rotate),
  );
}

function parseProvider(text: string): Provider {
  const found = providers.find((each) => each === text);
  if (found) return found;
  throw new InvalidArgumentError(`Allowed are ${providers.join(', ')}.`);
}

const columns: readonly Column[] = [
  { title: 'PROVIDER' },
  { title: 'USER' },
  { title: 'CREATED', align: 'right' },
  { title: 'UPDATED', align: 'right' },
];

async function set(
  client: Client,
  provider: Provider,
  user: string | undefined,
  report: CommandOutput,
): Promise<number> {
  const value = await readSecret(report.terminal, `Key for ${provider}: `);
  if (value === undefined) return Exit.interrupted;
  if (value === '') {
    throw new UsageError('There is no key on stdin.', `Type: cella credentials set ${provider} < key-file`);
  }
  const info = await client.credentials.set(provider, value, { user });
  await report.success(
    info,
    `Stored the key for ${provider} of ${escapeControls(info.userName)}. It is not shown again.`,
  );
  return Exit.ok;
}

async function list(client: Client, user: string | undefined, report: CommandOutput): Promise<number> {
  const credentials = await client.credentials.list({ user });
  const rows = credentials.map(({ provider, userName, createdAt, updatedAt }) => [
    provider,
    userName,
    formatAgo(createdAt),
    formatAgo(updatedAt),
  ]);
  if (rows.length > 0) await report.table({ credentials }, columns, rows);
  else
    await report.empty({ credentials }, 'There are no credentials. Store one with `cella credentials set anthropic`.');
  return Exit.ok;
}

async function remove(
  client: Client,
  provider: Provider,
  user: string | undefined,
  report: CommandOutput,
): Promise<number> {
  await client.credentials.delete(provider, { user });
  await report.success({ deleted: provider }, `Deleted the key for ${provider}.`);
  return Exit.ok;
}

async function rotate(client: Client, report: CommandOutput): Promise<number> {
  const rotation = await client.credentials.rotate();
  const { rotated, left } = rotation;
  await report.success(rotation, `Encrypted ${formatCount(rotated, 'credential')} again.`);
  await report.warn(
    left.map(({ userId, provider }) => `No master key opens the ${provider} credential of ${escapeControls(userId)}.`),
  );
  return left.length === 0 ? Exit.ok : Exit.failed;
}

const MOST_BYTES = 64 * 1024;

/** Without the line end. Undefined if the person cancelled the question. */
async function readSecret(terminal: CliTerminal, prompt: string): Promise<string | undefined> {
  return terminal.interactive ? await typed(terminal, prompt) : await piped(terminal);
}

async function typed(terminal: CliTerminal, prompt: string): Promise<string | undefined> {
  const { openLineInput } = await import('../terminal/line-editor.ts');
  const lines = openLineInput(terminal, () => {});
  try {
    const line = await lines.read({ prompt, password: true, ignoreTypeahead: true });
    return line.kind === 'line' ? line.text.trim() : undefined;
  } finally {
    lines.close();
  }
}

async function piped({ stdin }: CliTerminal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MOST_BYTES) throw new UsageError('The text on stdin is too long for a key.', 'Give only the key.');
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8').trim();
}

const help = {
  credentials: `
Examples:
  $ cella credentials set anthropic                     asks for the key, and does not show it
  $ cella credentials set openai < key-file
  $ cella credentials list
  $ cella credentials delete openai
  $ cella credentials rotate                            a new master key, for administrators

A credential is your key for a model provider: anthropic, openai or gemini. Agents that work for you use
it through the server, and never see it. The server stores it encrypted and never shows it again. Every
user needs their own key. See docs/gateway.md.`,
  set: `
Examples:
  $ cella credentials set anthropic
  $ pass show anthropic | cella credentials set anthropic
  $ cella credentials set gemini --user ada < key-file

Reads the key from stdin, or asks for it at a terminal. It cannot be an argument, because every user of
this machine can see arguments. It replaces the previous key.`,
  list: `
Examples:
  $ cella credentials list
  $ cella credentials list --user ada --json

Shows which providers have a key, and since when. Keys are never shown.`,
  delete: `
Examples:
  $ cella credentials delete openai
  $ cella credentials delete openai --user ada`,
  rotate: `
Examples:
  $ cella credentials rotate

Encrypts every credential of every user again. If the master key is a file in the data folder, Cella
replaces it with a new one. If it is in CELLA_MASTER_KEY, start the server with the new key there and the
old one in CELLA_OLD_MASTER_KEY, then run this. Reports and keeps credentials that no key can decrypt.`,
};
