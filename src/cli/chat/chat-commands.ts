/** The table of chat commands, and completion with Tab. */

import { suggest } from '../../lib/suggest.ts';
import { completionsOf } from '../cells/cell-reader.ts';
import { UsageError } from '../command-errors.ts';
import { cutToWidth, displayWidth } from '../command-output.ts';
import { escapeControls } from '../format.ts';
import type { ChatOutcome, ChatState } from './chat-state.ts';
import { agent, cwd, py, sh } from './code-commands.ts';
import { NAMESPACE_COMMANDS, type NamespaceCommandName, namespaceCommand } from './namespace-commands.ts';
import { checkpoint, checkpoints, fork, history, restore, undo, vars } from './state-commands.ts';

const LONGEST_NAME = 40;

interface ChatCommand {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** Help that does not fit on one line. */
  readonly details?: string;
  run(state: ChatState, argument: string): Promise<ChatOutcome>;
}

const commands: readonly ChatCommand[] = [
  {
    name: 'py',
    usage: '/py CODE',
    summary: 'run Python; alone, several lines; /py reset clears all variables',
    details:
      'Later cells can use what a cell defines. The last value is shown. An unfinished line,\n' +
      'such as /py def f():, continues until an empty line. /py alone starts a block, which\n' +
      'ends at an empty line too. /py reset clears all variables; files and checkpoints stay.',
    run: py,
  },
  {
    name: 'sh',
    usage: '/sh COMMAND',
    summary: 'run a shell command in the same sandbox; alone, several lines',
    details:
      'It runs in the sandbox and folder of the code. You confirm it first, unless the chat was\n' +
      'started with --auto-sh or CELLA_AUTO_SH=1. After a cd, later commands and Python code run\n' +
      'in the new folder. Its stdin is empty.',
    run: sh,
  },
  {
    name: 'agent',
    usage: '/agent [NAME]',
    summary: 'choose the coding agent that plain lines go to',
    details:
      '/agent claude sends every line without a command to Claude, which works in the folder and\n' +
      'kernel of this chat. /agent claude auto-edit also sets the mode: ask, auto-edit, plan or\n' +
      'bypass. /agent off stops that, /agent shows the agent. If you choose none, plain lines are\n' +
      'Python with --auto-py, and an error without. Coding agents need a server: cella serve.',
    run: agent,
  },
  { name: 'cwd', usage: '/cwd', summary: 'show the working folder', run: withoutArgument('cwd', cwd) },
  { name: 'vars', usage: '/vars', summary: 'list variables', run: withoutArgument('vars', vars) },
  {
    name: 'undo',
    usage: '/undo',
    summary: 'go back to before the last cell, up to five times',
    details:
      'Reverts variables, objects, modules and the working folder. A /sh is a cell too.\n' + 'Files stay as they are.',
    run: withoutArgument('undo', undo),
  },
  {
    name: 'checkpoint',
    usage: '/checkpoint NAME',
    summary: 'create a checkpoint to go back to',
    details:
      'It is exact and fast, and ends with the kernel. /checkpoint --durable NAME writes it to\n' +
      'the storage, where it stays; variables that cannot be saved are listed.',
    run: checkpoint,
  },
  {
    name: 'checkpoints',
    usage: '/checkpoints',
    summary: 'list checkpoints',
    run: withoutArgument('checkpoints', checkpoints),
  },
  { name: 'restore', usage: '/restore NAME', summary: 'go back to a checkpoint', run: restore },
  {
    name: 'fork',
    usage: '/fork KEY',
    summary: 'copy the kernel to another agent key',
    details: 'Both continue independently, in the same folder. Use it with cella chat --key KEY.',
    run: fork,
  },
  { name: 'history', usage: '/history [N]', summary: 'show the last cells; ! marks those that failed', run: history },
  {
    name: 'deps',
    usage: '/deps [add NAME]',
    summary: 'list packages; add, remove, sync change them',
    details:
      '/deps add NAME installs a package, which you can import at once. /deps remove NAME takes\n' +
      'it off the list for later kernels, /deps sync installs listed packages that are missing.',
    run: namespaceCommand('deps'),
  },
  {
    name: 'skills',
    usage: '/skills [run NAME]',
    summary: 'list skills; search, show, run and delete them',
    details:
      '/skills search WORDS finds skills by what they do, /skills show NAME shows the source,\n' +
      '/skills run NAME name=value runs one in the kernel, /skills delete NAME deletes it.\n' +
      'Code creates them with skills.create(name, source, description).',
    run: namespaceCommand('skills'),
  },
  {
    name: 'tools',
    usage: '/tools [call NAME]',
    summary: 'list tools; search, show and call them',
    details:
      '/tools search WORDS finds tools by what they do, /tools show NAME shows the parameters,\n' +
      '/tools call NAME name=value calls one, /tools call NAME.RECIPE a recipe of it. If it\n' +
      'requires approval, you are asked. Create tools with `cella tools create FILE`.',
    run: namespaceCommand('tools'),
  },
  {
    name: 'artifacts',
    usage: '/artifacts [show NAME]',
    summary: 'list artifacts; show, load and delete them',
    details:
      '/artifacts show NAME shows the metadata, /artifacts load NAME FILE writes the content to\n' +
      'a file on this machine, /artifacts delete NAME deletes it. Code saves them with\n' +
      'artifacts.save(name, value).',
    run: namespaceCommand('artifacts'),
  },
  { name: 'help', usage: '/help [COMMAND]', summary: 'show this, or more about a command', run: help },
  { name: 'quit', usage: '/quit', summary: 'leave, as Ctrl-D does', run: withoutArgument('quit', async () => 'leave') },
];

/** Synonyms of commands. */
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

/** Rejects an argument for a command that takes none, because the user meant something by it. */
function withoutArgument(name: string, work: (state: ChatState) => Promise<ChatOutcome>): ChatCommand['run'] {
  return async (state, argument) => {
    if (argument !== '') throw new UsageError(`/${name} takes no argument.`, `Type /${name} alone.`);
    return await work(state);
  };
}

async function help({ output }: ChatState, argument: string): Promise<ChatOutcome> {
  const chosen = argument === '' ? undefined : findCommand(argument.replace(/^\//, ''));
  const shown = (chosen ? [chosen] : commands).map(({ name, usage, summary }) => ({ name, usage, summary }));
  const width = Math.max(...shown.map(({ usage }) => displayWidth(usage)));
  const lines = shown.map(({ usage, summary }) => `${usage.padEnd(width)}  ${summary}`);
  if (chosen?.details !== undefined) lines.push('', chosen.details);
  if (!chosen) lines.push('', 'Tab completes, Ctrl-C interrupts running code or clears the line, Ctrl-D leaves.');
  await output.result({ command: 'help', commands: shown }, lines.join('\n'));
  return 'done';
}

type LineCompletion = readonly [matches: readonly string[], replaced: string];

export async function complete({ session, autoPy }: ChatState, line: string): Promise<LineCompletion> {
  const parsed = parseLine(line);
  if (parsed.kind === 'text') return autoPy ? await completionsOf(session, '', line) : [[], line];
  const { name } = parsed;
  const rest = /^\s*\/\S*\s+([\s\S]*)$/.exec(line)?.[1];
  if (rest === undefined) return [among(commandNames(`/${name}`), '').map((each) => `${each} `), `/${name}`];
  switch (name) {
    case 'py':
      return rest.trim() === '' ? [among(['reset'], rest), rest] : await completionsOf(session, '', rest);
    case 'restore': {
      const names = (await session.checkpoints()).flatMap((each) => (each.gone === undefined ? (each.name ?? []) : []));
      return [among([...new Set(names)], rest), rest];
    }
    case 'deps':
    case 'skills':
    case 'tools':
    case 'artifacts':
      return await completeNamespace(session, name, rest);
    case 'agent':
      return [among(['claude', 'off'], rest), rest];
    case 'help':
      return [among(commandNames(''), rest), rest];
    default:
      return [[], line];
  }
}

/** Completes the verbs, and after a verb the names that it accepts. */
async function completeNamespace(
  session: ChatState['session'],
  namespace: NamespaceCommandName,
  rest: string,
): Promise<LineCompletion> {
  const [, verb, start = ''] = /^(\S+)\s+(\S*)$/.exec(rest) ?? [];
  if (verb === undefined) return [/\s/.test(rest) ? [] : among(Object.keys(NAMESPACE_COMMANDS[namespace]), rest), rest];
  if (!['show', 'run', 'call', 'delete', 'remove', 'load'].includes(verb)) return [[], rest];
  const all = await session[namespace].list();
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

/** Only the space after a command's name and trailing space are not part of the argument. */
export function parseLine(line: string): ChatLine {
  const [, name, argument = ''] = /^\s*\/(\S*)\s*([\s\S]*)$/.exec(line) ?? [];
  return name === undefined ? { kind: 'text', text: line } : { kind: 'command', name, argument: argument.trimEnd() };
}
