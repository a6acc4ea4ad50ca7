/** /deps, /skills, /tools and /artifacts: the commands of the same names, within a chat. */

import { suggest } from '../../lib/suggest.ts';
import { UsageError } from '../command-errors.ts';
import * as artifactWork from '../commands/artifacts.ts';
import * as depsWork from '../commands/deps.ts';
import * as skillWork from '../commands/skills.ts';
import { invokeCell, parseSkillArguments } from '../commands/skills.ts';
import * as toolWork from '../commands/tools.ts';
import { callTool } from '../commands/tools.ts';
import { Exit } from '../exit-codes.ts';
import { type ChatOutcome, type ChatState, pushUndo } from './chat-state.ts';
import { tagCell } from './code-commands.ts';

const FOUND = 10;

type Verb = (state: ChatState, words: readonly string[], signal: AbortSignal) => Promise<number>;
type Verbs = Readonly<Record<string, Verb>>;

const deps: Verbs = {
  list: (state) => depsWork.list(state.session.deps, state.output.forCommand('deps')),
  add: (state, words, signal) => {
    need(words, 'A package is missing.', 'Type /deps add NAME.');
    return changeDeps(state, `add ${words.join(' ')}`, (options) => state.session.deps.add(words, options), signal);
  },
  remove: (state, words, signal) => {
    const name = one(words, '/deps remove NAME');
    return changeDeps(state, `remove ${name}`, (options) => state.session.deps.remove(name, options), signal);
  },
  sync: (state, words, signal) => {
    none(words, '/deps sync');
    return changeDeps(state, 'sync', (options) => state.session.deps.sync(options), signal);
  },
};

/** The host installs the packages; a cell then makes the running kernel use them. */
async function changeDeps(
  state: ChatState,
  line: string,
  work: depsWork.PackageChange,
  signal: AbortSignal,
): Promise<number> {
  let changed = false;
  const noted: depsWork.PackageChange = async (options) => {
    const result = await work(options);
    changed = result.installed.length + (result.removed?.length ?? 0) > 0;
    return result;
  };
  const exitCode = await depsWork.change(noted, state.output.forCommand('deps'), signal);
  if (!changed) return exitCode;
  const result = await state.session.run(tagCell('deps', line, '__import__("builtins").deps.sync();'));
  pushUndo(state, { line: `/deps ${line}`, readOnly: true });
  if (result.status !== 'ok' && result.error)
    await state.output.forCommand('deps').warn([`cella: ${result.error.message}`]);
  return exitCode;
}

const skills: Verbs = {
  list: (state) => skillWork.list(state.session.skills, state.output.forCommand('skills')),
  search: (state, words) => {
    need(words, 'Search words are missing.', 'Type /skills search WORDS.');
    return skillWork.search(state.session.skills, words.join(' '), FOUND, state.output.forCommand('skills'));
  },
  show: (state, words) =>
    skillWork.show(state.session.skills, one(words, '/skills show NAME'), state.output.forCommand('skills')),
  run: async (state, [name, ...words]) => {
    if (name === undefined) throw new UsageError('A skill is missing.', 'Type /skills run NAME [name=value …].');
    const skill = await state.session.skills.get(name);
    const result = await state.cells.run(invokeCell(skill.name, parseSkillArguments(skill, words, undefined), words));
    if (result) pushUndo(state, { line: `/skills run ${[name, ...words].join(' ')}`, readOnly: false });
    return result?.status === 'ok' ? Exit.ok : Exit.failed;
  },
  delete: (state, words) =>
    skillWork.remove(state.session.skills, one(words, '/skills delete NAME'), state.output.forCommand('skills')),
};

const tools: Verbs = {
  list: (state) => toolWork.list(state.session.tools, state.output.forCommand('tools')),
  search: (state, words) => {
    need(words, 'Search words are missing.', 'Type /tools search WORDS.');
    return toolWork.search(state.session.tools, words.join(' '), FOUND, state.output.forCommand('tools'));
  },
  show: (state, words) =>
    toolWork.show(state.session.tools, one(words, '/tools show NAME'), state.output.forCommand('tools')),
  call: (state, [callee, ...words], signal) => {
    if (callee === undefined) throw new UsageError('A tool is missing.', 'Type /tools call NAME [name=value …].');
    return callTool(state.session.tools, { callee, words, args: undefined, signal }, state.output.forCommand('tools'));
  },
};

const artifacts: Verbs = {
  list: (state) => artifactWork.list(state.session.artifacts, state.output.forCommand('artifacts')),
  show: (state, words) =>
    artifactWork.show(
      state.session.artifacts,
      one(words, '/artifacts show NAME'),
      state.output.forCommand('artifacts'),
    ),
  load: (state, [name, out, ...more]) => {
    if (name === undefined || out === undefined || more.length > 0) {
      throw new UsageError('An artifact and a file are needed.', 'Type /artifacts load NAME FILE.');
    }
    return artifactWork.load(state.session.artifacts, { name, out }, state.output.forCommand('artifacts'));
  },
  delete: (state, words) =>
    artifactWork.remove(
      state.session.artifacts,
      one(words, '/artifacts delete NAME'),
      state.output.forCommand('artifacts'),
    ),
};

export const NAMESPACE_COMMANDS = { deps, skills, tools, artifacts } as const;
export type NamespaceCommandName = keyof typeof NAMESPACE_COMMANDS;

/** Without a word, lists everything. */
export function namespaceCommand(
  namespace: NamespaceCommandName,
): (state: ChatState, argument: string) => Promise<ChatOutcome> {
  const verbs: Verbs = NAMESPACE_COMMANDS[namespace];
  return async (state, argument) => {
    const [word = 'list', ...words] = splitWords(argument);
    const verb = Object.hasOwn(verbs, word) ? verbs[word] : undefined;
    if (!verb) {
      const known = Object.keys(verbs);
      const meant = suggest(word, known);
      const guess = meant === undefined ? '' : `Did you mean /${namespace} ${meant}? `;
      throw new UsageError(
        `/${namespace} has no command ${JSON.stringify(word)}.`,
        `${guess}The commands are ${known.join(', ')}.`,
      );
    }
    if (word === 'list') none(words, `/${namespace} list`);
    const stop = new AbortController();
    state.activeTask = stop;
    try {
      return (await verb(state, words, stop.signal)) === Exit.ok ? 'done' : 'failed';
    } finally {
      state.activeTask = undefined;
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
