/** Names of tools, skills and artifacts: they become file names, keys and, for tools and skills, Python attributes. */

import { CellaError } from './errors.ts';

const MOST_CHARACTERS = 128;
/** A file system's names have 255 bytes, and what is being written has an ending of its own. */
const MOST_BYTES = 200;

/** The name in its one spelling, or INVALID_NAME. `what` is said in the error: "artifact". */
export function checkName(name: unknown, what: string): string {
  if (typeof name !== 'string') throw invalid(what, String(name), 'it must be text');
  const problem = nameProblem(name);
  if (problem !== undefined) throw invalid(what, name, problem);
  return name.normalize('NFC');
}

export const isName = (name: string): boolean => nameProblem(name) === undefined;

function nameProblem(name: string): string | undefined {
  if (name === '') return 'it is empty';
  if (!name.isWellFormed()) return 'it holds a lone surrogate';
  if ([...name].length > MOST_CHARACTERS || Buffer.byteLength(name.normalize('NFC')) > MOST_BYTES) {
    return `it is longer than ${MOST_CHARACTERS} characters or ${MOST_BYTES} bytes`;
  }
  if (/[/\\]/.test(name)) return 'it holds a path separator';
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) return 'it holds a control character';
  if (name.startsWith('.')) return 'it begins with a dot';
  if (name.trim() !== name) return 'it begins or ends with a space';
  return undefined;
}

/** A name that code can write after a dot. Python compares identifiers in this spelling. */
export function checkIdentifier(name: unknown, what: string, taken: ReadonlySet<string> = new Set()): string {
  const checked = checkName(name, what).normalize('NFKC');
  if (!/^[\p{XIDS}_]\p{XIDC}*$/u.test(checked) || checked.startsWith('_')) {
    throw invalid(what, checked, 'it must be a Python name that does not begin with an underscore');
  }
  if (KEYWORDS.has(checked)) throw invalid(what, checked, 'it is a word of Python itself');
  if (taken.has(checked)) throw invalid(what, checked, 'it is the name of a method; choose another');
  return checked;
}

const KEYWORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global ' +
    'if import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
);

function invalid(what: string, name: string, why: string): CellaError {
  const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
  return new CellaError('INVALID_NAME', `${shown} cannot be used as ${what} name: ${why}.`, { details: { name } });
}
