/** Parses typed arguments of tools and skills: name=value, by position, or one JSON object. */

import { tryParseJson } from '../lib/json-scanner.ts';
import type { PyValue } from '../protocol/py-values.ts';
import { UsageError } from './command-errors.ts';

export type ArgumentType = 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object' | 'any';

export interface KnownParameter {
  readonly name: string;
  readonly type: ArgumentType;
  /** The type of the items, if the type is `array`. */
  readonly items?: ArgumentType | undefined;
}

interface GivenArguments {
  readonly named: Record<string, PyValue>;
  readonly positional: PyValue[];
}

const NAMED = /^([\p{L}_][\p{L}\p{N}_]*)=([\s\S]*)$/u;

/** Words without a name are positional. Repeating a name makes a list. `json` gives all arguments as one object. */
export function parseArguments(
  words: readonly string[],
  json: string | undefined,
  parameters: readonly (KnownParameter & { readonly positional?: boolean })[],
): GivenArguments {
  if (json !== undefined) {
    if (words.length === 0) return { named: parseObject(json), positional: [] };
    throw new UsageError('Arguments are given in two ways.', 'Use either name=value words or --args.');
  }
  const named: Record<string, PyValue> = {};
  const texts = new Map<string, string[]>();
  const places = parameters.filter(({ positional }) => positional);
  const positional: PyValue[] = [];
  for (const word of words) {
    const [, name, text = ''] = NAMED.exec(word) ?? [];
    if (name !== undefined) texts.set(name, [...(texts.get(name) ?? []), text]);
    else positional.push(parsePlaced(word, places[positional.length] ?? places.at(-1)));
  }
  for (const [name, given] of texts) {
    const parameter = parameters.find((each) => each.name === name) ?? { name, type: 'any' as const };
    named[name] = parseGiven(parameter, given);
  }
  return { named, positional };
}

function parsePlaced(word: string, parameter: KnownParameter | undefined): PyValue {
  if (!parameter) return parseValue('argument', 'any', word);
  const { name, type, items = 'any' } = parameter;
  return parseValue(name, type === 'array' ? items : type, word);
}

function parseGiven({ name, type, items = 'any' }: KnownParameter, texts: readonly string[]): PyValue {
  const [only = '', ...more] = texts;
  if (more.length === 0 && (type !== 'array' || only.trimStart().startsWith('['))) return parseValue(name, type, only);
  if (more.length > 0 && type !== 'array' && type !== 'any') {
    throw new UsageError(`${name} is given ${texts.length} times, and is not a list.`, 'Give it once.');
  }
  return texts.map((text) => parseValue(name, items, text));
}

function parseValue(name: string, type: ArgumentType, text: string): PyValue {
  switch (type) {
    case 'string':
      return text;
    case 'integer':
      if (/^[+-]?\d+$/.test(text)) return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
      throw argumentError(name, 'a whole number', text);
    case 'number':
      if (text.trim() !== '' && Number.isFinite(Number(text))) return Number(text);
      throw argumentError(name, 'a number', text);
    case 'boolean':
      if (/^(true|yes|1)$/i.test(text)) return true;
      if (/^(false|no|0)$/i.test(text)) return false;
      throw argumentError(name, 'true or false', text);
    case 'array':
    case 'object': {
      const value = tryParseJson(text);
      if (Array.isArray(value) ? type === 'array' : typeof value === 'object' && value !== null && type === 'object') {
        return value as PyValue;
      }
      throw argumentError(name, type === 'array' ? 'a list in JSON' : 'an object in JSON', text);
    }
    // Every JSON value is a valid Python value. Most words are plain text.
    case 'any': {
      const value = tryParseJson(text);
      return value === undefined ? text : (value as PyValue);
    }
  }
}

function parseObject(text: string): Record<string, PyValue> {
  const value = tryParseJson(text);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, PyValue>;
  throw new UsageError('--args is not a JSON object.', `Write it as in --args '{"name": "value"}'.`);
}

function argumentError(name: string, what: string, text: string): UsageError {
  return new UsageError(`${name} must be ${what}, and is ${JSON.stringify(text)}.`, `Write it as ${name}=VALUE.`);
}
