/** The table is what docs/settings.md, the help and the sources say, no more and no less. */

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Setting, settingsIn } from './setting.ts';
import { allSettings, borrowedVariables, serverSettings } from './settings-table.ts';

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const sources = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  .map((name) => ({ name, text: read(`src/${name}`) }));

const SEPARATORS: Readonly<Record<string, string>> = { ':': 'colons', ',': 'commas', ' ': 'spaces' };
const code = (text: string | undefined) => (text === undefined ? '' : `\`${text}\``);

const optionNames = new Map(settingsIn(serverSettings).map(([name, setting]) => [setting, name]));

/** A row of docs/settings.md. */
function rowOf(setting: Setting): string {
  const { flag, variable, key, defaultText, description, type } = setting;
  const between = SEPARATORS[type.separator ?? ''];
  const value = type.fileType === 'switch' ? '=1' : '';
  const cells = [
    code(flag),
    `${code(variable && `${variable}${value}`)}${between === undefined ? '' : `, by ${between}`}`,
    code(key),
    code(optionNames.get(setting)),
    defaultText,
    description,
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`.replaceAll('  ', ' ');
}

describe('docs/settings.md', () => {
  it('has the current table', () => {
    const head = ['| flag | variable | config file | option | default | |', '|---|---|---|---|---|---|'];
    const rows = read('docs/settings.md')
      .match(/^\| flag [\s\S]*?(?=\n\n)/m)?.[0]
      .split('\n');
    expect(rows).toEqual([...head, ...allSettings.map(rowOf)]);
  });

  it('has the variables of other programs', () => {
    const page = read('docs/settings.md');
    for (const [name, about] of Object.entries(borrowedVariables)) expect(page).toContain(`| \`${name}\` | ${about} |`);
  });
});

describe('the table', () => {
  const known = new Set(allSettings.flatMap(({ variable = [] }) => variable));

  it('names nothing twice', () => {
    for (const part of ['flag', 'variable', 'key'] as const) {
      const names = allSettings.flatMap((setting) => setting[part]?.replace(/ .*/, '') ?? []);
      expect(names).toEqual([...new Set(names)]);
    }
  });

  it('has every variable that the source mentions', () => {
    const mentioned = sources.flatMap(({ name, text }) =>
      [...text.matchAll(/\bCELLA_[A-Z_]*[A-Z]\b/g)].map(([variable]) => `${variable} in ${name}`),
    );
    // Given to programs, and not read: what a tool that runs a command is called by.
    const others = new Set(['CELLA_COMMAND', 'CELLA_CREDENTIAL', 'CELLA_ENVIRONMENT']);
    expect(
      mentioned.filter((each) => {
        const [variable = ''] = each.split(' ');
        return !known.has(variable) && !others.has(variable);
      }),
    ).toEqual([]);
  });

  it('is the only place that defines flags with a variable', () => {
    const written = sources
      .filter(({ name }) => name.startsWith('cli'))
      .flatMap(({ name, text }) =>
        [...text.matchAll(/(?:option|new Option)\(\s*'(?:-\w, )?(--[\w-]+)/g)].map(([, flag]) => `${flag} in ${name}`),
      );
    const flags = new Set(allSettings.flatMap(({ flag = [] }) => [flag].flat().map((each) => each.replace(/ .*/, ''))));
    // Where a command means another thing by the same word.
    const own = [
      '--storage in cli/commands/users.ts',
      '--token-file in cli/commands/mcp.ts',
      '--key in cli/session-flags.ts',
      '--tools in cli/commands/prompt.ts',
      '--no-runtime-deps in cli/session-flags.ts',
    ];
    expect(written.filter((each) => flags.has(each.replace(/ .*/, '')) && !own.includes(each))).toEqual([]);
  });

  it('has no config file name for secrets', () => {
    for (const { variable = '', key } of allSettings)
      if (/TOKEN$|CREDENTIAL/.test(variable)) expect(key).toBeUndefined();
  });
});
