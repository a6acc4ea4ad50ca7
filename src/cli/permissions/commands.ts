/** `cella permissions`: what waits for somebody's leave, and what needs none. */

import { type Command, Option } from 'commander';
import type { PermissionScope } from '../../protocol/api/agent-routes.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import { help } from './help.ts';

interface SessionFlag extends JsonServerFlags {
  readonly session?: string;
}

interface AllowFlags extends JsonServerFlags {
  readonly scope?: PermissionScope;
  readonly pattern?: string;
  readonly text?: string;
}

const scopes = ['once', 'session', 'always'] as const satisfies readonly PermissionScope[];

export function addPermissions(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.permissions);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string, parent = group) =>
    addJsonServerFlags(defineCommand(parent, name, summary, text));
  const ofSession = (command: Command, about: string) => command.option('--session <session>', about, parseText);
  const one = (command: Command) =>
    command
      .argument('<session>', 'its id or agent key', parseText)
      .argument('<permission>', 'its id, such as prm_k3v7q2mzp4abcdef', parseText);
  const work = () => import('./permissions.ts');

  ofSession(make('list', 'what waits for a decision', help.list), 'only those of this one')
    .option('--all', 'also what was decided before')
    .action(async (flags: SessionFlag & { all?: boolean }) =>
      at(flags, async (client, report) =>
        (await work()).list(client, { session: flags.session, all: flags.all === true }, report),
      ),
    );
  one(make('allow', 'allow it', help.allow))
    .addOption(new Option('--scope <scope>', 'for how long').choices(scopes))
    .option('--pattern <pattern>', 'what else is allowed, with --scope session or always', parseText)
    .option('--text <text>', 'the answer to a question', parseText)
    .action(async (session: string, id: string, { scope = 'once', pattern, text, ...flags }: AllowFlags) => {
      const more = { ...(pattern === undefined ? {} : { pattern }), ...(text === undefined ? {} : { text }) };
      const decision = { decision: 'allow', scope, ...more } as const;
      await at(flags, async (client, report) => (await work()).decide(client, { session, id, decision }, report));
    });
  one(make('deny', 'deny it', help.deny))
    .option('--reason <text>', 'what the agent is told', parseText)
    .action(async (session: string, id: string, { reason, ...flags }: JsonServerFlags & { reason?: string }) => {
      const decision = { decision: 'deny', ...(reason === undefined ? {} : { reason }) } as const;
      await at(flags, async (client, report) => (await work()).decide(client, { session, id, decision }, report));
    });
  const rules = defineCommand(group, 'rules', 'what is allowed without a question', help.rules);
  const whose = 'those of this session instead of yours';
  ofSession(make('list', 'show them', help.rules, rules), whose).action(async (flags: SessionFlag) =>
    at(flags, async (client, report) => (await work()).listRules(client, flags.session, report)),
  );
  make('add', 'allow a tool for good where its use fits a pattern', help.rules, rules)
    .argument('<tool>', 'such as Bash, or tools.NAME for a tool of code', parseText)
    .argument('<pattern>', 'such as "git status" or "npm test *"', parseText)
    .action(async (tool: string, pattern: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).addRule(client, { tool, pattern }, report)),
    );
  ofSession(make('rm', 'allow it no longer', help.rules, rules), whose)
    .argument('<rule>', 'its id', parseText)
    .action(async (id: string, flags: SessionFlag) =>
      at(flags, async (client, report) => (await work()).removeRule(client, { id, session: flags.session }, report)),
    );
}
