/**
 * Checks values against the JSON schemas of MCP servers. Following references may never end, so checks have a timeout. The
 * server checks patterns: compiling a pattern of 30 letters can take seconds, and cannot be stopped.
 */

import { createContext, Script } from 'node:vm';
import type {
  JsonSchemaType,
  JsonSchemaValidator,
  JsonSchemaValidatorResult,
  jsonSchemaValidator,
} from '@modelcontextprotocol/client';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/client/validators/cf-worker';
import { workedMs } from '../../lib/event-loop.ts';
import { setEntry } from '../../lib/values.ts';

/** The most characters of all keys and texts, plus one per value. A single step on a text cannot be stopped. */
const MOST_LETTERS = 256 * 1024;
/** The event loop is blocked for this time. Ordinary schemas take less than 1 ms. */
const MOST_MS = 15;
/** If other processes used the CPU for most of that time, the check is repeated a few times. */
const LEAST_WORKED_MS = 9;
const MOST_TRIES = 5;

/** The check runs as a script, as only scripts can be stopped. The function is our own. */
const globals: { work: (() => unknown) | undefined } = { work: undefined };
const script = new Script('work()');
const context = createContext(globals);

export class SchemaValidator implements jsonSchemaValidator {
  /** Why a schema is refused: a check did not end in time, or the schema is too large. All values are refused then. */
  static readonly #refused = new WeakMap<object, string>();
  /** The schemas in the form that is checked. */
  static readonly #copies = new WeakMap<object, JsonSchemaType>();

  /** Schemas are interpreted, and never compiled to code. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    return (value) => {
      const refused = SchemaValidator.#refused.get(schema);
      if (refused !== undefined) return invalid(refused);
      let result: JsonSchemaValidatorResult<T> | undefined;
      const check = () => {
        const copy = SchemaValidator.#copies.get(schema) ?? withoutPatterns(schema, { letters: MOST_LETTERS });
        if (copy === undefined) return;
        SchemaValidator.#copies.set(schema, copy);
        result = new CfWorkerJsonSchemaValidator().getValidator<T>(copy)(value);
      };
      let why = `takes too long to check, more than ${MOST_MS} ms`;
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        const begun = workedMs();
        const ended = endsInTime(check);
        if (ended && result) return result;
        if (ended) why = `is larger than ${MOST_LETTERS / 1024} KB`;
        if (ended || workedMs() - begun >= LEAST_WORKED_MS) break;
      }
      SchemaValidator.#refused.set(schema, why);
      return invalid(why);
    };
  }
}

/**
 * A copy of a schema without patterns, or undefined if it is too large. Removes everything that the validator could take
 * for a pattern, anywhere in the schema. Names that a pattern could allow are allowed. Arguments called `pattern` stay, as
 * they have a schema.
 */
function withoutPatterns<T>(schema: T, left: { letters: number }): T | undefined;
function withoutPatterns(schema: unknown, left: { letters: number }): unknown {
  left.letters -= typeof schema === 'string' ? schema.length + 1 : 1;
  if (left.letters < 0) return undefined;
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept: Record<string, unknown> = {};
  for (const key in schema) {
    left.letters -= key.length;
    const value: unknown = Reflect.get(schema, key);
    if (isPattern(key, value)) continue;
    setEntry(kept, key, key === 'patternProperties' ? { '': true } : withoutPatterns(value, left));
    if (left.letters < 0) return undefined;
  }
  return Array.isArray(schema) ? Object.values(kept) : kept;
}

/** The validator treats a list with one text as that text. */
function isPattern(key: string, value: unknown): boolean {
  const isText = typeof value !== 'boolean' && (typeof value !== 'object' || value === null || Array.isArray(value));
  return isText && (key === 'pattern' || (key === 'format' && String(value) === 'regex'));
}

function endsInTime(work: () => void): boolean {
  globals.work = work;
  try {
    script.runInContext(context, { timeout: MOST_MS });
    return true;
  } catch (error) {
    // The error comes from the script's context, so `instanceof Error` is false.
    if (Object(error).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false;
    throw error;
  } finally {
    globals.work = undefined;
  }
}

const invalid = (why: string): JsonSchemaValidatorResult<never> => ({
  valid: false,
  data: undefined,
  errorMessage: `the schema of the server ${why}`,
});
