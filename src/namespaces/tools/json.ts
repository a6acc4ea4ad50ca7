/** JSON from programs and servers as values for Python: whole numbers keep all their digits. */

import { CellaError } from '../../protocol/errors.ts';
import { PyObject, type PyValue } from '../../protocol/kernel-marshal.ts';
import { DEEPEST, numberOf, readJson } from './json-reader.ts';

/** Up to so many characters it is parsed at once. */
const SMALL = 32 * 1024;

/** The text of a number is given beside its value; the type library does not know it yet. */
const { parse } = JSON as {
  parse(text: string, revive: (key: string, value: PyValue, context: { readonly source?: string }) => PyValue): PyValue;
};

/** `what` begins the error: "What tools.x wrote". */
export async function parseJson(text: string, what: string): Promise<PyValue> {
  try {
    if (text.length > SMALL) return await readJson(text);
    const value = parse(text, (_key, item, { source }) => {
      return typeof item === 'number' && source !== undefined ? numberOf(source) : item;
    });
    if (tooDeep(value, DEEPEST)) throw new SyntaxError(`it is nested deeper than ${DEEPEST}`);
    return value;
  } catch (error) {
    // A RangeError where the nesting is more than the stack holds.
    const reason = error instanceof Error ? error.message : String(error);
    throw new CellaError('TOOL_FAILED', `${what} is not JSON that can be used: ${reason}.`, { cause: error });
  }
}

function tooDeep(value: PyValue, left: number): boolean {
  if (value === null || typeof value !== 'object') return false;
  return left === 0 || Object.values(value).some((item: PyValue) => tooDeep(item, left - 1));
}

/** Why the value cannot be written as JSON; undefined where it can. */
export function jsonProblem(value: PyValue, { big }: { big: boolean }): string | undefined {
  if (value instanceof Uint8Array) return 'it holds bytes';
  if (value instanceof PyObject) return `it holds ${value.type}`;
  if (typeof value === 'bigint' && !big) return 'it holds a whole number of more than 53 bits';
  if (typeof value === 'number' && !Number.isFinite(value)) return `it holds ${value}`;
  if (typeof value === 'string' && !value.isWellFormed()) return 'it holds text with a lone surrogate';
  if (value === null || typeof value !== 'object') return undefined;
  for (const item of Object.values(value)) {
    const problem = jsonProblem(item, { big });
    if (problem !== undefined) return problem;
  }
  return undefined;
}
