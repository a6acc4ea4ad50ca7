/** `cella tokens`: how programs get into a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Scope } from '../../protocol/access-models.ts';
import { scopes } from '../../protocol/enums.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import { help } from './help.ts';

interface ListFlags extends JsonServerFlags {
  readonly user?: string;
}

interface CreateFlags extends ListFlags {
  readonly name: string;
  readonly scopes?: Scope[];
  readonly expires?: number;
}

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 24 * 3_600_000 } as const;

export function addTokens(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.tokens);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const whose = (command: Command) => command.option('--user <name>', 'of another user, for administrators', parseText);
  const work = () => import('./tokens.ts');

  whose(make('list', 'yours, without their secrets', help.list)).action(async (flags: ListFlags) =>
    at(flags, async (client, report) => (await work()).list(client, flags.user, report)),
  );
  whose(make('create', 'make one; it is shown this once', help.create))
    .requiredOption('--name <name>', 'what it is for, to be told from others', parseText)
    .addOption(new Option('--scopes <list>', `what it is for: any of ${scopes.join(', ')}`).argParser(parseScopes))
    .addOption(new Option('--expires <time>', 'when it ends, such as 30m, 12h or 90d').argParser(parseTime))
    .action(async (flags: CreateFlags) =>
      at(flags, async (client, report) => (await work()).create(client, flags, report)),
    );
  make('revoke', 'let nobody in with it any more', help.revoke)
    .argument('<id>', 'as `cella tokens list` shows it', parseText)
    .action(async (id: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).revoke(client, id, report)),
    );
}

function parseScopes(text: string): Scope[] {
  return text.split(',').map((word) => {
    const scope = scopes.find((each) => each === word.trim());
    if (scope) return scope;
    throw new InvalidArgumentError(`Allowed are ${scopes.join(', ')}, separated by commas.`);
  });
}

function parseTime(text: string): number {
  const [, count, unit] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const ms = unit === 'm' || unit === 'h' || unit === 'd' ? Number(count) * UNITS_MS[unit] : 0;
  if (ms > 0) return ms;
  throw new InvalidArgumentError('It must be a number of minutes, hours or days, such as 30m, 12h or 90d.');
}
