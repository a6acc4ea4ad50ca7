/** `cella profiles`: named settings for coding agents, written in YAML and stored by a server. */

import type { Command } from 'commander';
import { stringify } from 'yaml';
import type { Client } from '../../client/index.ts';
import { YamlDocument } from '../../lib/yaml-document.ts';
import { type AgentProfile, parseProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import { UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { formatAgo } from '../format.ts';
import { parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';
import { readText } from '../terminal/line-input.ts';

interface SetFlags extends JsonServerFlags {
  readonly from: string;
}

export function addProfiles(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.profiles);
  const run = serverRunner(context, done);
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const addName = (command: Command) => command.argument('<name>', 'name of the profile, such as reviewer', parseText);

  make('list', 'list your profiles', help.list).action((flags: JsonServerFlags) => run(flags, list));
  addName(make('show', 'show a profile, as YAML that `set` takes', help.show)).action(
    (name: string, flags: JsonServerFlags) => run(flags, (client, output) => show(client, name, output)),
  );
  addName(make('set', 'create or replace a profile', help.set))
    .requiredOption('--from <file>', 'YAML or JSON file with the profile, or - for stdin', parseText)
    .action((name: string, flags: SetFlags) =>
      run(flags, (client, output) => set(client, { name, from: flags.from }, output)),
    );
  addName(make('delete', 'delete a profile', help.delete)).action((name: string, flags: JsonServerFlags) =>
    run(flags, (client, output) => remove(client, name, output)),
  );
}

const columns: readonly Column[] = [{ title: 'NAME' }, { title: 'UPDATED', align: 'right' }, { title: 'CONTENT' }];

async function list(client: Client, report: CommandOutput): Promise<number> {
  const profiles = await client.profiles.list();
  const rows = profiles.map(({ name, updatedAt, profile }) => [name, formatAgo(updatedAt), holds(profile)]);
  if (rows.length > 0) await report.table({ profiles }, columns, rows);
  else await report.empty({ profiles }, 'You have no profiles. `cella profiles set --help` shows how to write one.');
  return Exit.ok;
}

async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
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
  const text =
    content === 'nothing'
      ? `Set ${name}. It is empty, so it changes nothing. \`cella profiles set --help\` shows what can be in one.`
      : `Set ${name}: ${content}. Use it with \`cella prompt --profile ${name} …\`.`;
  await report.success(named, text);
  return Exit.ok;
}

async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
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

const advice = 'Run `cella profiles set --help` to see one.';

function readProfile(text: string, from: string): AgentProfile {
  const where = from === '-' ? 'The text on stdin' : from;
  const value = valueIn(text, where);
  try {
    return parseProfile(value);
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    throw new UsageError(`${where}: ${error.message}`, advice);
  }
}

function valueIn(text: string, where: string): unknown {
  const document = YamlDocument.parse(text);
  // An empty file is an empty profile.
  if (document instanceof YamlDocument) return document.value ?? {};
  const at = document.line === undefined ? '' : `, line ${document.line}`;
  throw new UsageError(`${where}${at}: ${document.reason}`, advice);
}

const help = {
  profiles: `
Examples:
  $ cella profiles set reviewer --from reviewer.yaml
  $ cella prompt --profile reviewer 'Look at the last change'
  $ cella profiles list
  $ cella profiles show reviewer > reviewer.yaml         to edit it and set it again
  $ cella profiles delete reviewer

A profile is a named set-up for coding agents: a system prompt, rules, skills, subagents, commands, MCP
servers, and files for the workspace. Profiles are yours, and stored at the server.
\`cella profiles set --help\` shows how to write one. See docs/agents.md.`,
  list: `
Examples:
  $ cella profiles list
  $ cella profiles list --json`,
  show: `
Examples:
  $ cella profiles show reviewer
  $ cella profiles show reviewer --json | jq .profile.rules

Shows everything, including the headers and variables of MCP servers.`,
  set: `
Examples:
  $ cella profiles set reviewer --from reviewer.yaml
  $ generate-profile | cella profiles set reviewer --from -

reviewer.yaml; every part is optional:
  systemPrompt: You review changes, and change nothing yourself.
  rules:
    style: Be brief. Name the file and the line.
  skills:
    release: |
      ---
      name: release
      description: How a release is made here
      ---
      Run the tests first.
  commands:
    review: Look at the last commit, and say what is wrong with it.
  subagents:
    scout:
      description: Finds where something is done
      prompt: You look around, and report paths.
      tools: [Read, Grep]
  mcpServers:
    issues: { type: http, url: https://example.org/mcp }
    notes: { type: stdio, argv: [node, notes.mjs] }
  files:
    NOTES.md: "# Notes"

Replaces the profile of this name completely. A file of the profile never replaces one that the workspace
has. Programs of MCP servers run in the agent's sandbox. The agent can read everything in a profile: store
keys of model providers with \`cella credentials\` instead.`,
  delete: `
Examples:
  $ cella profiles delete reviewer

Turns that have started keep it until they end.`,
};
