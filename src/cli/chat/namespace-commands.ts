/** /deps, /skills, /tools and /artifacts: the commands of the same names, within a chat. */

import { suggest } from '../../lib/suggest.ts';
import { Exit, UsageError } from '../command-errors.ts';
import * as artifactWork from '../commands/artifacts.ts';
import { get } from '../commands/artifacts.ts';
import * as depsWork from '../commands/deps.ts';
import * as skillWork from '../commands/skills.ts';
import { invokeCell, parseSkillArguments } from '../commands/skills.ts';
import * as toolWork from '../commands/tools.ts';
import { callTool } from '../commands/tools.ts';
import { type ChatOutcome, type ChatState, pushUndo } from './chat-state.ts';
import { tagCell } from './shell-cell.ts';

const FOUND = 10;

type Verb = (desk: ChatState, words: readonly string[], signal: AbortSignal) => Promise<number>;
type Verbs = Readonly<Record<string, Verb>>;

const deps: Verbs = {
  list: (desk) => depsWork.list(desk.session.deps, desk.output.forCommand('deps')),
  add: (desk, words, signal) => {
    need(words, 'Which package is not said.', 'Type /deps add NAME.');
    return changeDeps(desk, `add ${words.join(' ')}`, (options) => desk.session.deps.add(words, options), signal);
  },
  remove: (desk, words, signal) => {
    const name = one(words, '/deps remove NAME');
    return changeDeps(desk, `remove ${name}`, (options) => desk.session.deps.remove(name, options), signal);
  },
  sync: (desk, words, signal) => {
    none(words, '/deps sync');
    return changeDeps(desk, 'sync', (options) => desk.session.deps.sync(options), signal);
  },
};

/** The host installs; a cell then has the running kernel find what is there. */
async function changeDeps(desk: ChatState, line: string, work: depsWork.Change, signal: AbortSignal): Promise<number> {
  let changed = false;
  const noted: depsWork.Change = async (options) => {
    const result = await work(options);
    changed = result.installed.length + (result.removed?.length ?? 0) > 0;
    return result;
  };
  const exitCode = await depsWork.change(noted, desk.output.forCommand('deps'), signal);
  if (!changed) return exitCode;
  const result = await desk.session.run(tagCell('deps', line, '__import__("builtins").deps.sync();'));
  pushUndo(desk, { line: `/deps ${line}`, readOnly: true });
  if (result.status !== 'ok' && result.error)
    await desk.output.forCommand('deps').warn([`cella: ${result.error.message}`]);
  return exitCode;
}

const skills: Verbs = {
  list: (desk) => skillWork.list(desk.session.skills, desk.output.forCommand('skills')),
  search: (desk, words) => {
    need(words, 'What to search for is not said.', 'Type /skills search WORDS.');
    return skillWork.search(desk.session.skills, words.join(' '), FOUND, desk.output.forCommand('skills'));
  },
  show: (desk, words) =>
    skillWork.show(desk.session.skills, one(words, '/skills show NAME'), desk.output.forCommand('skills')),
  run: async (desk, [name, ...words]) => {
    if (name === undefined) throw new UsageError('Which skill is not said.', 'Type /skills run NAME [name=value …].');
    const skill = await desk.session.skills.get(name);
    const result = await desk.cells.run(invokeCell(skill.name, parseSkillArguments(skill, words, undefined), words));
    if (result) pushUndo(desk, { line: `/skills run ${[name, ...words].join(' ')}`, readOnly: false });
    return result?.status === 'ok' ? Exit.ok : Exit.failed;
  },
  delete: (desk, words) =>
    skillWork.remove(desk.session.skills, one(words, '/skills delete NAME'), desk.output.forCommand('skills')),
};

const tools: Verbs = {
  list: (desk) => toolWork.list(desk.session.tools, desk.output.forCommand('tools')),
  search: (desk, words) => {
    need(words, 'What to search for is not said.', 'Type /tools search WORDS.');
    return toolWork.search(desk.session.tools, words.join(' '), FOUND, desk.output.forCommand('tools'));
  },
  show: (desk, words) =>
    toolWork.show(desk.session.tools, one(words, '/tools show NAME'), desk.output.forCommand('tools')),
  call: (desk, [callee, ...words], signal) => {
    if (callee === undefined) throw new UsageError('Which tool is not said.', 'Type /tools call NAME [name=value …].');
    return callTool(desk.session.tools, { callee, words, args: undefined, signal }, desk.output.forCommand('tools'));
  },
};

const artifacts: Verbs = {
  list: (desk) => artifactWork.list(desk.session.artifacts, desk.output.forCommand('artifacts')),
  show: (desk, words) =>
    artifactWork.show(desk.session.artifacts, one(words, '/artifacts show NAME'), desk.output.forCommand('artifacts')),
  get: (desk, [name, out, ...more]) => {
    if (name === undefined || out === undefined || more.length > 0) {
      throw new UsageError('An artifact and a file are needed.', 'Type /artifacts get NAME FILE.');
    }
    return get(desk.session.artifacts, { name, out }, desk.output.forCommand('artifacts'));
  },
  delete: (desk, words) =>
    artifactWork.remove(
      desk.session.artifacts,
      one(words, '/artifacts delete NAME'),
      desk.output.forCommand('artifacts'),
    ),
};

export const NAMESPACE_COMMANDS = { deps, skills, tools, artifacts } as const;
export type NamespaceName = keyof typeof NAMESPACE_COMMANDS;

/** Without a word, what there is. */
export function namespaceCommand(thing: NamespaceName): (desk: ChatState, argument: string) => Promise<ChatOutcome> {
  const verbs: Verbs = NAMESPACE_COMMANDS[thing];
  return async (desk, argument) => {
    const [word = 'list', ...words] = splitWords(argument);
    const verb = Object.hasOwn(verbs, word) ? verbs[word] : undefined;
    if (!verb) {
      const known = Object.keys(verbs);
      const meant = suggest(word, known);
      const guess = meant === undefined ? '' : `Did you mean /${thing} ${meant}? `;
      throw new UsageError(`/${thing} knows no ${JSON.stringify(word)}.`, `${guess}It knows ${known.join(', ')}.`);
    }
    if (word === 'list') none(words, `/${thing} list`);
    const stop = new AbortController();
    desk.activeTask = stop;
    try {
      return (await verb(desk, words, stop.signal)) === Exit.ok ? 'done' : 'failed';
    } finally {
      desk.activeTask = undefined;
    }
  };
}

function one([word, ...more]: readonly string[], usage: string): string {
  if (word !== undefined && word !== '' && more.length === 0) return word;
  throw new UsageError(word === undefined ? 'A name is missing.' : 'One name is needed.', `Type ${usage}.`);
}

function need(words: readonly string[], message: string, advice: string): void {
  if (words.length === 0) throw new UsageError(message, advice);
}

function none(words: readonly string[], usage: string): void {
  if (words.length > 0) throw new UsageError(`${usage} takes no argument.`, `Type ${usage} alone.`);
}

export function splitWords(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  for (let rest = text; rest !== ''; ) {
    const [part = '', blank, single, double, escaped, plain] =
      /^(?:(\s+)|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+))/.exec(rest) ?? [];
    if (part === '') throw new UsageError(`A quote is not closed: ${rest.slice(0, 40)}`, 'Close it, or leave it out.');
    rest = rest.slice(part.length);
    if (blank !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + (single ?? double?.replace(/\\(["\\])/g, '$1') ?? escaped ?? plain);
  }
  return word === undefined ? words : [...words, word];
}
