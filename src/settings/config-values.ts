/** What stands in a config file, checked against the table and written as the variables it stands for. */

import { resolve } from 'node:path';
import { z } from 'zod';
import { suggest } from '../lib/suggest.ts';
import type { Kind } from './kinds.ts';
import { holdsPassword, type Setting } from './setting.ts';
import { allSettings } from './table.ts';

const byKey = new Map(allSettings.flatMap((setting) => (setting.key === undefined ? [] : [[setting.key, setting]])));

const text = z.string().min(1, 'must not be empty');
const schemas: Readonly<Record<Kind<unknown>['written'], z.ZodType<ConfigValue>>> = {
  text,
  number: z.union([z.number(), text], 'must be a number'),
  switch: z.boolean('must be true or false'),
  list: z.union([text.transform((one) => [one]), z.array(text)], 'must be a list'),
};

type ConfigValue = string | number | boolean | string[];
export type ConfigValues = Readonly<Record<string, ConfigValue | undefined>>;

const entries = [...byKey].map(([key, { kind }]) => [key, schemas[kind.written].optional()] as const);
export const configSchema: z.ZodType<ConfigValues> = z.strictObject(
  Object.fromEntries(entries),
  'must be settings by their names',
);

/** In words, with the name that was most likely meant where one is unknown. */
export function configProblems({ issues }: z.ZodError): string[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') {
      const name = issue.path.map(String).join('.');
      return [name === '' ? issue.message : `${name}: ${issue.message}`];
    }
    return issue.keys.map((key) => {
      const meant = suggest(key.replaceAll(/_|(?<=[a-z])(?=[A-Z])/g, '-'), [...byKey.keys()]);
      return `there is no setting ${JSON.stringify(key)}${meant === undefined ? '' : ` (did you mean ${meant}?)`}`;
    });
  });
}

/** The name of a setting whose value holds a password, as addresses can. */
export function passwordIn(values: ConfigValues): string | undefined {
  return [...byKey].find(([key, { mayHoldPassword }]) => {
    return mayHoldPassword && holdsPassword([values[key]].flat().join(' '));
  })?.[0];
}

export function toVariables(
  values: ConfigValues,
  folder: string,
  refused: (problem: string) => Error,
): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    const setting = byKey.get(key);
    if (value === undefined || setting?.variable === undefined) continue;
    const written = textOf(value, setting, folder);
    try {
      setting.kind.parse(written);
    } catch (error) {
      throw refused(`${key}: ${error instanceof Error ? error.message.replace(/\.$/, '') : error}`);
    }
    const parts = Array.isArray(value) ? value : [];
    const { separator = '' } = setting.kind;
    if (parts.some((part) => part.includes(separator))) {
      throw refused(`${key}: a part of the list must not contain ${JSON.stringify(separator)}`);
    }
    variables[setting.variable] = written;
  }
  return variables;
}

function textOf(value: ConfigValue, { kind }: Setting, folder: string): string {
  if (typeof value === 'boolean') return value ? '1' : '0';
  const placed = (part: string) => {
    const isPath = kind.place === 'path' || (kind.place === 'program' && part.includes('/'));
    return isPath ? resolve(folder, part) : part;
  };
  if (Array.isArray(value)) return value.map(placed).join(kind.separator);
  return placed(String(value));
}
