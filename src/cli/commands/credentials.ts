/** `cella credentials`: keys of model providers, which agents use and never see. */

import { type Command, InvalidArgumentError } from 'commander';
import type { Client } from '../../client/index.ts';
import { type Provider, providers } from '../../protocol/enums.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatAgo } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import type { Terminal } from '../terminal/terminal.ts';

interface Flags extends JsonServerFlags {
  readonly user?: string;
}

export function addCredentials(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.credentials);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const whose = (command: Command) => command.option('--user <name>', 'of another user, for administrators', parseText);
  const named = (command: Command) => command.argument('<provider>', providers.join(', '), parseProvider);

  named(whose(make('set', 'keep one; it is read from stdin or asked for', help.set))).action(
    async (provider: Provider, flags: Flags) =>
      at(flags, async (client, report) => set(client, provider, flags.user, report)),
  );
  whose(make('list', 'which there are; nothing of the keys', help.list)).action(async (flags: Flags) =>
    at(flags, async (client, report) => list(client, flags.user, report)),
  );
  named(whose(make('delete', 'forget one', help.remove))).action(async (provider: Provider, flags: Flags) =>
    at(flags, async (client, report) => remove(client, provider, flags.user, report)),
  );
  make('rotate', 'encrypt all of them anew, for administrators', help.rotate).action(async (flags: JsonServerFlags) =>
    at(flags, async (client, report) => rotate(client, report)),
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
  { title: 'MADE', align: 'right' },
  { title: 'SET', align: 'right' },
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
    throw new UsageError('There is no key on stdin.', `Give it there: cella credentials set ${provider} < key-file`);
  }
  const info = await client.credentials.set(provider, value, { user });
  await report.success(
    info,
    `Kept the key for ${provider} of ${escapeControls(info.userName)}. It is not shown again.`,
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
  else await report.empty({ credentials }, 'There is no credential. `cella credentials set anthropic` keeps one.');
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
  const what = rotated === 1 ? 'One credential is' : `${rotated} credentials are`;
  await report.success(rotation, `${what} encrypted anew.`);
  await report.warn(
    left.map(({ userId, provider }) => `No key at hand opens ${provider} of ${escapeControls(userId)}.`),
  );
  return left.length === 0 ? Exit.ok : Exit.failed;
}

const MOST_BYTES = 64 * 1024;

/** Without the line end behind it. Undefined where whoever was asked has thought better of it. */
async function readSecret(terminal: Terminal, prompt: string): Promise<string | undefined> {
  return terminal.interactive ? await typed(terminal, prompt) : await piped(terminal);
}

async function typed(terminal: Terminal, prompt: string): Promise<string | undefined> {
  const { openLineInput } = await import('../terminal/line-editor.ts');
  const lines = openLineInput(terminal, () => {});
  try {
    const line = await lines.read({ prompt, password: true, ignoreTypeahead: true });
    return line.kind === 'line' ? line.text.trim() : undefined;
  } finally {
    lines.close();
  }
}

async function piped({ stdin }: Terminal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MOST_BYTES) throw new UsageError('What is on stdin is too large for a key.', 'Give the key alone.');
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
  $ cella credentials rotate                            another master key, for administrators

A credential is your key of a model provider: anthropic, openai or gemini. Agents that work for you use
it through the server, and never hold it. The server keeps it encrypted and never shows it again. Whoever
prompts uses a key of their own; nobody's stands in for another's.`,
  set: `
Examples:
  $ cella credentials set anthropic
  $ pass show anthropic | cella credentials set anthropic
  $ cella credentials set gemini --user ada < key-file

The key is read from stdin, or asked for at a terminal. It is no argument: those can be seen by every
user of this machine. It takes the place of the one before.`,
  list: `
Examples:
  $ cella credentials list
  $ cella credentials list --user ada --json

Which providers there is a key for, and since when. Nothing of the keys is shown.`,
  remove: `
Examples:
  $ cella credentials delete openai
  $ cella credentials delete openai --user ada`,
  rotate: `
Examples:
  $ cella credentials rotate

Encrypts every credential of every user anew. Where the master key is a file of the data folder, another
one takes its place. Where it is CELLA_MASTER_KEY, start the server with the new one there and the one
before in CELLA_OLD_MASTER_KEY, then run this. What no key opens is told and left as it is.`,
};
