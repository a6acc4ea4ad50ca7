/**
 * The config file: YAML with the settings of the table by name, converted to the variables that it stands in for. It decides
 * which programs run and where data is stored, so only its owner may be able to change it.
 */

import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import { readOwnFile } from '../lib/private-file.ts';
import { suggest } from '../lib/suggest.ts';
import { messageOf } from '../lib/values.ts';
import { describeYamlProblem, YamlDocument } from '../lib/yaml-document.ts';
import { CellaError } from '../protocol/errors.ts';
import { holdsPassword, type Setting, type ValueType } from './setting.ts';
import { allSettings } from './settings-table.ts';

const MOST_BYTES = 1024 * 1024;

interface ConfigPlace {
  readonly path: string;
  /** Whether the user has named the file. The one in the data folder is optional, and cannot set the data folder. */
  readonly named: boolean;
}

/** The variables that the file stands for. */
export async function readConfig({ path, named }: ConfigPlace): Promise<Readonly<Record<string, string>>> {
  const file = await readOwnFile(path, { maxBytes: MOST_BYTES, followLinks: true, mayBeRoots: true }).catch((error) => {
    throw unusable(path, messageOf(error), error);
  });
  if (file.kind === 'missing') {
    if (named) throw unusable(path, 'it does not exist');
    return {};
  }
  if (file.kind === 'unusable') throw unusable(path, file.reason);
  const { mode, text } = file;
  if ((mode & 0o022) !== 0) throw unusable(path, `others can write to it; run: chmod go-w ${path}`);
  const values = valuesIn(text, path);
  if (!named && values.data !== undefined) {
    throw unusable(path, 'data: the file is in the data folder itself; set another one with --data or CELLA_DATA_DIR');
  }
  const secret = passwordIn(values);
  if (secret !== undefined && (mode & 0o044) !== 0) {
    throw unusable(path, `${secret} contains a password, and others can read the file; run: chmod 600 ${path}`);
  }
  return toVariables(values, dirname(path), (problem) => unusable(path, problem));
}

function valuesIn(text: string, path: string): ConfigValues {
  const document = YamlDocument.parse(text);
  if (!(document instanceof YamlDocument)) throw unusable(path, describeYamlProblem(document));
  const parsed = configSchema.safeParse(document.value ?? {});
  if (parsed.success) return parsed.data;
  throw unusable(path, configProblems(parsed.error).join('; '));
}

function unusable(path: string, problem: string, cause?: unknown): CellaError {
  const message = `The config file ${path} cannot be used: ${problem}.`;
  return new CellaError('INVALID_OPTIONS', message, cause === undefined ? {} : { cause });
}

const byKey = new Map(allSettings.flatMap((setting) => (setting.key === undefined ? [] : [[setting.key, setting]])));

const text = z.string().min(1, 'must not be empty');
const schemas: Readonly<Record<ValueType<unknown>['fileType'], z.ZodType<ConfigValue>>> = {
  text,
  number: z.union([z.number(), text], 'must be a number'),
  switch: z.boolean('must be true or false'),
  list: z.union([text.transform((one) => [one]), z.array(text)], 'must be a list'),
};

type ConfigValue = string | number | boolean | string[];
type ConfigValues = Readonly<Record<string, ConfigValue | undefined>>;

const entries = [...byKey].map(([key, { type }]) => [key, schemas[type.fileType].optional()] as const);
const configSchema: z.ZodType<ConfigValues> = z.strictObject(
  Object.fromEntries(entries),
  'must be settings by their names',
);

/** The problem as text, with the most similar name for an unknown setting. */
function configProblems({ issues }: z.ZodError): string[] {
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

/** The name of a setting whose value contains a password, as an address can. */
function passwordIn(values: ConfigValues): string | undefined {
  return [...byKey].find(([key, { mayHoldPassword }]) => {
    return mayHoldPassword && holdsPassword([values[key]].flat().join(' '));
  })?.[0];
}

function toVariables(
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
      setting.type.parse(written);
    } catch (error) {
      throw refused(`${key}: ${error instanceof Error ? error.message.replace(/\.$/, '') : error}`);
    }
    const parts = Array.isArray(value) ? value : [];
    const { separator = '' } = setting.type;
    if (parts.some((part) => part.includes(separator))) {
      throw refused(`${key}: a part of the list must not contain ${JSON.stringify(separator)}`);
    }
    variables[setting.variable] = written;
  }
  return variables;
}

function textOf(value: ConfigValue, { type }: Setting, folder: string): string {
  if (typeof value === 'boolean') return value ? '1' : '0';
  const placed = (part: string) => {
    const isPath = type.pathKind === 'path' || (type.pathKind === 'program' && part.includes('/'));
    return isPath ? resolve(folder, part) : part;
  };
  if (Array.isArray(value)) return value.map(placed).join(type.separator);
  return placed(String(value));
}
