/**
 * Checks values against the JSON schemas of MCP servers. References can take for ever, whatever the value is: a check that
 * does not end in time is given up. Patterns are left to the server: to compile one of 30 letters can take seconds, which
 * nothing ends.
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

/** Letters of all keys and texts, and one for each thing. What is done with a text in one step cannot be ended, either. */
const MOST_LETTERS = 256 * 1024;
/** Others wait meanwhile. Honest schemas take less than 1 ms. */
const MOST_MS = 15;
/** Where other processes had the processor for most of that, it is tried again, a few times. */
const LEAST_WORKED_MS = 9;
const MOST_TRIES = 5;

/** Only code that is run as a script can be ended; the function is our own. */
const globals: { work: (() => unknown) | undefined } = { work: undefined };
const script = new Script('work()');
const context = createContext(globals);

export class BoundedSchemas implements jsonSchemaValidator {
  /** Why: they did not end in time once, or are too large. They are refused from then on, whatever the value. */
  static readonly #refused = new WeakMap<object, string>();
  /** As they are checked. */
  static readonly #copies = new WeakMap<object, JsonSchemaType>();

  /** Schemas are walked through, never compiled to code. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    return (value) => {
      const refused = BoundedSchemas.#refused.get(schema);
      if (refused !== undefined) return invalid(refused);
      let result: JsonSchemaValidatorResult<T> | undefined;
      const check = () => {
        const copy = BoundedSchemas.#copies.get(schema) ?? withoutPatterns(schema, { letters: MOST_LETTERS });
        if (copy === undefined) return;
        BoundedSchemas.#copies.set(schema, copy);
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
      BoundedSchemas.#refused.set(schema, why);
      return invalid(why);
    };
  }
}

/**
 * A copy from which nothing is compiled; undefined where it is too large. It does not ask where in the schema it is:
 * whatever the validator could take for a pattern goes. Names that a pattern could allow are allowed. Arguments that are
 * called `pattern` have a schema, and stay.
 */
function withoutPatterns<T>(schema: T, left: { letters: number }): T | undefined;
function withoutPatterns(schema: unknown, left: { letters: number }): unknown {
  left.letters -= typeof schema === 'string' ? schema.length + 1 : 1;
  if (left.letters < 0) return undefined;
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept: [string, unknown][] = [];
  for (const key in schema) {
    left.letters -= key.length;
    const value: unknown = Reflect.get(schema, key);
    if (isPattern(key, value)) continue;
    kept.push([key, key === 'patternProperties' ? { '': true } : withoutPatterns(value, left)]);
    if (left.letters < 0) return undefined;
  }
  // Not by assignment: a key may be `__proto__`.
  return Array.isArray(schema) ? kept.map(([, value]) => value) : Object.fromEntries(kept);
}

/** Lists of one text are texts to the validator. */
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
    // It is an error of that context, and none of the class that is called Error here.
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
