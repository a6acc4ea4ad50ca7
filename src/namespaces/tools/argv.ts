/** The argument list of a program: options in the order of the schema, then the positionals; never a shell. */

import type { PyValue } from '../../protocol/kernel-marshal.ts';
import type { Bound } from './arguments.ts';
import type { CliTool, Option } from './cli-definition.ts';
import { parametersOf } from './recipes.ts';
import { wrong } from './stopped.ts';

export function buildArgv(callee: string, tool: CliTool, bound: Bound): string[] {
  const refuse = (problem: string) => wrong(callee, parametersOf(tool), problem);
  const texts = (
    name: string,
    value: PyValue,
    shape: { allow_dash: boolean; separator?: string | undefined },
  ): string[] => {
    const items = (Array.isArray(value) ? value : [value]).map(String);
    for (const item of bound.fromCaller.has(name) ? items : []) {
      const problem = textProblem(item, shape);
      if (problem !== undefined) throw refuse(`was given a wrong ${name}: ${problem}`);
    }
    return items;
  };

  const argv = [...tool.command];
  for (const [name, option] of Object.entries(tool.schema.options)) {
    const value = bound.values.get(name);
    if (value === undefined || value === false) continue;
    argv.push(...optionArgv(flagOf(name, option), value, option, value === true ? [] : texts(name, value, option)));
  }
  const places: string[] = [];
  let missing: string | undefined;
  for (const { name, allow_dash } of tool.schema.positional) {
    const value = bound.values.get(name);
    if (value === undefined) missing ??= name;
    else if (missing !== undefined) throw refuse(`needs ${missing} where ${name} is given`);
    // What follows `--` cannot be taken for an option.
    else places.push(...texts(name, value, { allow_dash: allow_dash || tool.end_of_options }));
  }
  if (tool.end_of_options && places.length > 0) argv.push('--');
  return [...argv, ...places];
}

function optionArgv(flag: string, value: PyValue, { separator }: Option, items: readonly string[]): string[] {
  if (value === true) return [flag];
  const values = separator === undefined || items.length === 0 ? items : [items.join(separator)];
  return values.flatMap((item) => (flag.endsWith('=') ? [`${flag}${item}`] : [flag, item]));
}

function flagOf(name: string, { flag, short }: Option): string {
  if (flag !== undefined) return flag;
  if (short !== undefined) return `-${short.replace(/^-/, '')}`;
  return name.length === 1 ? `-${name}` : `--${name.replaceAll('_', '-')}`;
}

function textProblem(text: string, shape: { allow_dash: boolean; separator?: string | undefined }): string | undefined {
  if (text.includes('\0')) return 'it holds a NUL';
  if (!text.isWellFormed()) return 'it is not valid text';
  if (text.startsWith('-') && !shape.allow_dash) {
    return `it begins with a dash, so the program would take it for an option (the definition can allow it with \`allow_dash: true\`)`;
  }
  if (shape.separator !== undefined && text.includes(shape.separator)) {
    return `an item holds ${JSON.stringify(shape.separator)}, which stands between items`;
  }
  return undefined;
}

/** For people who are asked, and for messages. Control characters and spaces are shown, not obeyed. */
export function shownCommand(argv: readonly string[]): string {
  return argv.map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : JSON.stringify(part))).join(' ');
}
