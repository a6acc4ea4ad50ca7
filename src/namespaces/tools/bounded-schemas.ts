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
import { workedMs } from '../../lib/worked-ms.ts';

/** Others wait meanwhile. Honest schemas take less than 1 ms. */
const MOST_MS = 15;
/** Where other processes had the processor for most of that, it is tried again, a few times. */
const LEAST_WORKED_MS = 9;
const MOST_TRIES = 5;

/** Only code that is run as a script can be ended; the function is our own. */
const place: { work: (() => unknown) | undefined } = { work: undefined };
const script = new Script('work()');
const context = createContext(place);

export class BoundedSchemas implements jsonSchemaValidator {
  /** Those that did not end in time once: they are refused from then on, whatever the value. */
  static readonly #endless = new WeakSet<object>();
  static readonly #checked = new WeakMap<object, JsonSchemaType>();

  /** Schemas are walked through, never compiled to code. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    return (value) => {
      if (BoundedSchemas.#endless.has(schema)) return tooLong();
      let result: JsonSchemaValidatorResult<T> | undefined;
      const check = () => {
        const checked = BoundedSchemas.#checked.get(schema) ?? withoutPatterns(schema);
        BoundedSchemas.#checked.set(schema, checked);
        result = new CfWorkerJsonSchemaValidator().getValidator<T>(checked)(value);
      };
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        const begun = workedMs();
        if (endsInTime(check) && result) return result;
        if (workedMs() - begun >= LEAST_WORKED_MS) break;
      }
      BoundedSchemas.#endless.add(schema);
      return tooLong();
    };
  }
}

/**
 * A copy from which nothing is compiled. It does not ask where in the schema it is: whatever the validator could take for a
 * pattern goes. Names that a pattern could allow are allowed. Arguments that are called `pattern` have a schema, and stay.
 */
function withoutPatterns<T>(schema: T): T;
function withoutPatterns(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((item) => withoutPatterns(item));
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(([key, value]) => !isPattern(key, value));
  // Not by assignment: a key may be `__proto__`.
  return Object.fromEntries(
    kept.map(([key, value]) => [key, key === 'patternProperties' ? { '': true } : withoutPatterns(value)]),
  );
}

/** Lists of one text are texts to the validator. */
function isPattern(key: string, value: unknown): boolean {
  const isText = typeof value !== 'boolean' && (typeof value !== 'object' || value === null || Array.isArray(value));
  return isText && (key === 'pattern' || (key === 'format' && String(value) === 'regex'));
}

function endsInTime(work: () => void): boolean {
  place.work = work;
  try {
    script.runInContext(context, { timeout: MOST_MS });
    return true;
  } catch (error) {
    // It is an error of that context, and none of the class that is called Error here.
    if (Object(error).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false;
    throw error;
  } finally {
    place.work = undefined;
  }
}

const tooLong = (): JsonSchemaValidatorResult<never> => ({
  valid: false,
  data: undefined,
  errorMessage: `the schema of the server takes too long to check, more than ${MOST_MS} ms`,
});
