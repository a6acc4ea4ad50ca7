/** Profiles at a server: listed, shown, set from a file and deleted. */

import { stringify } from 'yaml';
import type { Client } from '../../client/index.ts';
import type { AgentProfile } from '../../protocol/agent-profile.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { formatAgo } from '../format.ts';
import { readText } from '../terminal/line-input.ts';
import { readProfile } from './read-profile.ts';

const columns: readonly Column[] = [{ title: 'NAME' }, { title: 'SET', align: 'right' }, { title: 'HOLDS' }];

export async function list(client: Client, report: CommandOutput): Promise<number> {
  const profiles = await client.profiles.list();
  const rows = profiles.map(({ name, updatedAt, profile }) => [name, formatAgo(updatedAt), holds(profile)]);
  if (rows.length > 0) await report.table({ profiles }, columns, rows);
  else await report.empty({ profiles }, 'You have no profile. `cella profiles set --help` shows how to make one.');
  return Exit.ok;
}

export async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
  const named = await client.profiles.get(name);
  await report.result(named, stringify(named.profile).trimEnd());
  return Exit.ok;
}

export async function set(
  client: Client,
  { name, from }: { readonly name: string; readonly from: string },
  report: CommandOutput,
): Promise<number> {
  const advice = 'Name a file with a profile in it, or - for stdin.';
  const profile = readProfile(await readText(from, { stdin: report.terminal.stdin, advice }), from);
  const named = await client.profiles.set(name, profile);
  const content = holds(named.profile);
  const told =
    content === 'nothing'
      ? `Set ${name}, which is empty: an agent works with it as it does without a profile. \`cella profiles set --help\` shows what can be in one.`
      : `Set ${name}: ${content}. Use it with \`cella agent --profile ${name} …\`.`;
  await report.success(named, told);
  return Exit.ok;
}

export async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
  await client.profiles.delete(name);
  await report.success({ deleted: name }, `Deleted ${name}.`);
  return Exit.ok;
}

const words: Readonly<Record<Exclude<keyof AgentProfile, 'systemPrompt'>, readonly [one: string, more: string]>> = {
  rules: ['rule', 'rules'],
  skills: ['skill', 'skills'],
  subagents: ['subagent', 'subagents'],
  commands: ['command', 'commands'],
  mcpServers: ['MCP server', 'MCP servers'],
  files: ['file', 'files'],
};

function holds({ systemPrompt, ...named }: AgentProfile): string {
  const counted = Object.entries(words).flatMap(([field, [one, more]]) => {
    const count = Object.keys(Object.entries(named).find(([name]) => name === field)?.[1] ?? {}).length;
    return count === 0 ? [] : [`${count} ${count === 1 ? one : more}`];
  });
  return [...(systemPrompt === undefined ? [] : ['a system prompt']), ...counted].join(', ') || 'nothing';
}
