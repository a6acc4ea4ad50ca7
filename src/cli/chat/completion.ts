/** What Tab offers in a chat: commands, Python names, checkpoints. */

import { completeLine } from '../cells/cell-reader.ts';
import { commands } from './commands.ts';
import type { Desk } from './desk.ts';
import { parseLine } from './parse.ts';
import { type Thing, things } from './things.ts';

type Completion = readonly [matches: readonly string[], replaced: string];

export async function complete({ session, autoPy }: Desk, line: string): Promise<Completion> {
  const parsed = parseLine(line);
  if (parsed.kind === 'text') return autoPy ? await completeLine(session, '', line) : [[], line];
  const { name } = parsed;
  const rest = /^\s*\/\S*\s+([\s\S]*)$/.exec(line)?.[1];
  if (rest === undefined) return [among(commandNames(`/${name}`), '').map((each) => `${each} `), `/${name}`];
  switch (name) {
    case 'py':
      return rest.trim() === '' ? [among(['reset'], rest), rest] : await completeLine(session, '', rest);
    case 'restore': {
      const names = (await session.checkpoints()).flatMap((each) => (each.gone === undefined ? (each.name ?? []) : []));
      return [among([...new Set(names)], rest), rest];
    }
    case 'deps':
    case 'skills':
    case 'tools':
    case 'artifacts':
      return await completeThing(session, name, rest);
    case 'agent':
      return [among(['claude', 'off'], rest), rest];
    case 'help':
      return [among(commandNames(''), rest), rest];
    default:
      return [[], line];
  }
}

/** Its verbs, and behind one of them the names that it takes. */
async function completeThing(session: Desk['session'], thing: Thing, rest: string): Promise<Completion> {
  const [, verb, start = ''] = /^(\S+)\s+(\S*)$/.exec(rest) ?? [];
  if (verb === undefined) return [/\s/.test(rest) ? [] : among(Object.keys(things[thing]), rest), rest];
  if (!['show', 'run', 'call', 'delete', 'remove', 'get'].includes(verb)) return [[], rest];
  const all = await session[thing].list();
  const names = all.map((each) => (typeof each === 'string' ? (/^[\w.-]+/.exec(each)?.[0] ?? each) : each.name));
  return [among(names, start), start];
}

function commandNames(start: string): string[] {
  return commands
    .map(({ name }) => (start.startsWith('/') ? `/${name}` : name))
    .filter((name) => name.startsWith(start));
}

const among = (all: readonly string[], start: string): string[] => all.filter((each) => each.startsWith(start));
