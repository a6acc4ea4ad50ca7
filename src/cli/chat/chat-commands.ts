/** The table of chat commands, and completion with Tab. */

import { suggest } from '../../lib/suggest.ts';
import { completeLine } from '../cells/cell-reader.ts';
import { UsageError } from '../command-errors.ts';
import { cutToWidth, displayWidth } from '../command-output.ts';
import { escapeControls } from '../format.ts';
import type { ChatOutcome, ChatState } from './chat-state.ts';
import { agent, cwd, py, sh } from './code-commands.ts';
import { NAMESPACE_COMMANDS, type NamespaceName, namespaceCommand } from './namespace-commands.ts';
import { checkpoint, checkpoints, fork, history, restore, undo, vars } from './undo-commands.ts';

const LONGEST_NAME = 40;

interface ChatCommand {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** More than fits a line. */
  readonly details?: string;
  run(state: ChatState, argument: string): Promise<ChatOutcome>;
}

const commands: readonly ChatCommand[] = [
  {
    name: 'py',
    usage: '/py CODE',
    summary: 'run Python; alone, several lines; /py reset clears all names',
    details:
      'What one cell defines, the next ones can use; the last value is shown.\n' +
      'An unfinished line, such as /py def f():, goes on until an empty line. /py alone\n' +
      'begins a block, which ends at an empty line too. /py reset clears every name of\n' +
      'this agent; files and checkpoints stay.',
    run: py,
  },
  {
    name: 'sh',
    usage: '/sh COMMAND',
    summary: 'run a shell command where the code works; alone, several lines',
    details:
      'It runs in the sandbox and folder of the code, and is shown and confirmed first,\n' +
      'unless the chat was started with --auto-sh or CELLA_AUTO_SH=1. Where it goes with\n' +
      'cd, the next commands and the code are too. Its stdin is empty.',
    run: sh,
  },
  {
    name: 'agent',
    usage: '/agent [NAME]',
    summary: 'choose the coding agent that plain lines go to',
    details:
      '/agent claude has every line that is no command go to Claude, which works in the folder\n' +
      'and the kernel of this chat; /agent claude auto-edit lets it change files unasked (modes:\n' +
      'ask, auto-edit, plan, bypass). /agent off ends that, /agent tells who it is. Until one is\n' +
      'chosen, here or with --with, plain lines are Python with --auto-py and nothing without.\n' +
      'Coding agents need a server: cella serve.',
    run: agent,
  },
  { name: 'cwd', usage: '/cwd', summary: 'tell the folder the code works in', run: withoutArgument('cwd', cwd) },
  { name: 'vars', usage: '/vars', summary: 'list the names of the code', run: withoutArgument('vars', vars) },
  {
    name: 'undo',
    usage: '/undo',
    summary: 'go back to before the last cell, up to five times',
    details:
      'Every change of names, objects, modules and the working folder is taken back.\n' +
      'A /sh is a cell too. Files stay as they are.',
    run: withoutArgument('undo', undo),
  },
  {
    name: 'checkpoint',
    usage: '/checkpoint NAME',
    summary: 'keep this moment of the kernel, to go back to',
    details:
      'It is exact and quick, and ends with the kernel. /checkpoint --durable NAME writes\n' +
      'it to the data folder instead, for another process or another day; names that\n' +
      'cannot be saved are told.',
    run: checkpoint,
  },
  {
    name: 'checkpoints',
    usage: '/checkpoints',
    summary: 'list them',
    run: withoutArgument('checkpoints', checkpoints),
  },
  { name: 'restore', usage: '/restore NAME', summary: 'go back to a checkpoint', run: restore },
  {
    name: 'fork',
    usage: '/fork KEY',
    summary: 'make another agent with the same names',
    details: 'Both go on independently, in the same folder. cella chat --agent KEY works with it.',
    run: fork,
  },
  { name: 'history', usage: '/history [N]', summary: 'show the last cells; ! marks those that failed', run: history },
  {
    name: 'deps',
    usage: '/deps [add NAME]',
    summary: 'list the packages; add, remove, sync change them',
    details:
      '/deps add NAME installs a package that the code can import at once, and later kernels\n' +
      'too. /deps remove NAME leaves it out from the next kernel on, /deps sync installs what\n' +
      'is configured and not there.',
    run: namespaceCommand('deps'),
  },
  {
    name: 'skills',
    usage: '/skills [run NAME]',
    summary: 'list the skills; search, show, run and delete them',
    details:
      '/skills search WORDS finds by what they are for, /skills show NAME tells the source,\n' +
      '/skills run NAME name=value runs one in the kernel, /skills delete NAME forgets it.\n' +
      'Code makes them with skills.create(name, source, description).',
    run: namespaceCommand('skills'),
  },
  {
    name: 'tools',
    usage: '/tools [call NAME]',
    summary: 'list the tools; search, show and call them',
    details:
      '/tools search WORDS finds by what they are for, /tools show NAME tells what one takes,\n' +
      '/tools call NAME name=value calls it, /tools call NAME.RECIPE a recipe of it. One that\n' +
      'requires approval is asked about first. `cella tools add FILE` adds more.',
    run: namespaceCommand('tools'),
  },
  {
    name: 'artifacts',
    usage: '/artifacts [show NAME]',
    summary: 'list the artifacts; show, get and delete them',
    details:
      '/artifacts show NAME tells what is known of one, /artifacts get NAME FILE writes it to a\n' +
      'file on this machine, /artifacts delete NAME deletes it. Code keeps them with\n' +
      'artifacts.save(name, value).',
    run: namespaceCommand('artifacts'),
  },
  { name: 'help', usage: '/help [COMMAND]', summary: 'show this, or more about a command', run: help },
  { name: 'quit', usage: '/quit', summary: 'leave, as Ctrl-D does', run: withoutArgument('quit', async () => 'leave') },
];

/** Other words for the same. */
const aliases: Readonly<Record<string, string>> = {
  exit: 'quit',
  q: 'quit',
  python: 'py',
  shell: 'sh',
  variables: 'vars',
};

export function findCommand(name: string): ChatCommand {
  const found = commands.find((command) => command.name === (aliases[name] ?? name));
  if (found) return found;
  const meant = suggest(
    name,
    commands.map((command) => command.name),
  );
  const guess = meant === undefined ? '' : `Did you mean /${meant}? `;
  throw new UsageError(
    `There is no command /${cutToWidth(escapeControls(name), LONGEST_NAME)}.`,
    `${guess}/help lists them all.`,
  );
}

/** What is typed behind a command that takes nothing was meant for something. */
function withoutArgument(name: string, work: (state: ChatState) => Promise<ChatOutcome>): ChatCommand['run'] {
  return async (state, argument) => {
    if (argument !== '') throw new UsageError(`/${name} takes no argument.`, `Type /${name} alone.`);
    return await work(state);
  };
}

async function help({ output: voice }: ChatState, argument: string): Promise<ChatOutcome> {
  const chosen = argument === '' ? undefined : findCommand(argument.replace(/^\//, ''));
  const told = (chosen ? [chosen] : commands).map(({ name, usage, summary }) => ({ name, usage, summary }));
  const width = Math.max(...told.map(({ usage }) => displayWidth(usage)));
  const lines = told.map(({ usage, summary }) => `${usage.padEnd(width)}  ${summary}`);
  if (chosen?.details !== undefined) lines.push('', chosen.details);
  if (!chosen) lines.push('', 'Tab completes, Ctrl-C interrupts what runs or clears the line, Ctrl-D leaves.');
  await voice.result({ command: 'help', commands: told }, lines.join('\n'));
  return 'done';
}

type LineCompletion = readonly [matches: readonly string[], replaced: string];

export async function complete({ session, autoPy }: ChatState, line: string): Promise<LineCompletion> {
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
async function completeThing(
  session: ChatState['session'],
  thing: NamespaceName,
  rest: string,
): Promise<LineCompletion> {
  const [, verb, start = ''] = /^(\S+)\s+(\S*)$/.exec(rest) ?? [];
  if (verb === undefined) return [/\s/.test(rest) ? [] : among(Object.keys(NAMESPACE_COMMANDS[thing]), rest), rest];
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

type ChatLine =
  | { readonly kind: 'command'; readonly name: string; readonly argument: string }
  | { readonly kind: 'text'; readonly text: string };

/** Only the space after a command's name, and that at the end, is no part of its argument. */
export function parseLine(line: string): ChatLine {
  const [, name, argument = ''] = /^\s*\/(\S*)\s*([\s\S]*)$/.exec(line) ?? [];
  return name === undefined ? { kind: 'text', text: line } : { kind: 'command', name, argument: argument.trimEnd() };
}
