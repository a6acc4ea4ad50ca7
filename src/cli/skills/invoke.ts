/** The cell that runs a skill in a kernel. Its name and arguments are data: none of it is ever Python. */

import { type PyValue, valueToJson } from '../../protocol/kernel-marshal.ts';
import type { SkillInfo } from '../../session/api.ts';
import { type KnownParameter, parseArguments, type ValueType } from '../call-arguments.ts';
import { markedCell } from '../chat/cell-mark.ts';
import { UsageError } from '../command-errors.ts';

/** Where the code has given another meaning to `skills`, this still finds them. It binds no name. */
export function invokeCell(
  name: string,
  named: Readonly<Record<string, PyValue>>,
  words: readonly string[] = [],
): string {
  const given = JSON.stringify(JSON.stringify(valueToJson({ ...named })));
  const quoted = JSON.stringify(name.toWellFormed());
  const code = `__import__("builtins").skills.invoke(${quoted}, **__import__("json").loads(${given}))`;
  return markedCell('skills', ['run', name, ...words].join(' '), code);
}

/** Words and JSON of a command line, by what the source says of its parameters. */
export function parseSkillArguments(
  skill: Pick<SkillInfo, 'name' | 'parameters'>,
  words: readonly string[],
  json: string | undefined,
): Record<string, PyValue> {
  const { named, positional } = parseArguments(words, json, skill.parameters.map(known));
  if (positional.length > 0) {
    const word = JSON.stringify(words.find((each) => !each.includes('=')));
    throw new UsageError(
      `An argument of the skill ${skill.name} has no name: ${word}.`,
      'Write arguments as name=value.',
    );
  }
  // One that has no name for callers is for the skill itself to complain of.
  const missing = skill.parameters.find(
    ({ name, kind, required }) => required && kind !== 'positional_only' && !Object.hasOwn(named, name),
  );
  if (!missing) return named;
  throw new UsageError(`The skill ${skill.name} needs ${missing.name}.`, `Write it as ${missing.name}=VALUE.`);
}

const types: Readonly<Record<string, ValueType>> = {
  str: 'string',
  int: 'integer',
  float: 'number',
  bool: 'boolean',
  list: 'array',
  dict: 'object',
};

/** Only what is sure is checked here; the skill itself sees to the rest. */
function known({ name, annotation = '' }: SkillInfo['parameters'][number]): KnownParameter {
  return { name, type: types[annotation.trim()] ?? 'any' };
}
