/** What an installer says, made short: a line of progress, and the reason of a failure. */

import type { Ending } from './process.ts';
import { indexesOf, type PackageSource, withoutSecrets, withoutUser } from './source.ts';

export interface Failure {
  readonly reason: string;
  /** `all`: it would be the same for any requirement, as where the index does not answer. */
  readonly scope: 'some' | 'all';
}

const WORTH_TELLING =
  /^(Collecting|Downloading|Installing|Successfully|Looking|Processing|Resolved|Prepared|Installed) ?/;
const UNREACHABLE = /connection broken|failed to establish|connect(ion)? error|error sending request/i;
const LONGEST = 1500;
const BUILDS = 'a package in it would have to be built from source, which runs its code and is not done';

/** Undefined for what nobody waits for. */
export function progressOf(line: string, source: PackageSource): string | undefined {
  const text = line.trim();
  return WORTH_TELLING.test(text) ? withoutSecrets(text, source).slice(0, 200) : undefined;
}

export function failureOf(ending: Ending, lines: readonly string[], source: PackageSource): Failure {
  if (ending.kind === 'not-started') return { reason: `the installer did not start: ${ending.reason}`, scope: 'all' };
  if (ending.kind === 'timed-out') return { reason: 'the installer did not end in time and was stopped', scope: 'all' };
  const unreachable = lines.find((line) => UNREACHABLE.test(line));
  const said = withoutSecrets(errorIn(lines), source).slice(0, LONGEST);
  if (unreachable !== undefined) {
    const why = /(?:\[Errno -?\d+\] )([^'")]+)|([A-Z][a-z ]+) \(os error/.exec(lines.filter(isConnection).join('\n'));
    const where = indexesOf(source).map(withoutUser).join(', ') || 'https://pypi.org/simple';
    const short = why?.[1] ?? why?.[2];
    const reason = `the package index did not answer (${where}${short === undefined ? '' : `: ${short}`}). ${said}`;
    return { reason: reason.trim(), scope: 'all' };
  }
  if (/Resource temporarily unavailable/.test(said)) return { reason: BUILDS, scope: 'some' };
  if (said !== '') return { reason: said, scope: 'some' };
  const how = ending.kind === 'ended' ? (ending.signal ?? `exit code ${ending.code}`) : ending.kind;
  return { reason: `the installer failed without a reason (${how})`, scope: 'some' };
}

function isConnection(line: string): boolean {
  return UNREACHABLE.test(line) || /os error/.test(line);
}

/** pip marks each line, uv the first of several; a crash tells the most in its last one. */
function errorIn(lines: readonly string[]): string {
  const marked = lines.filter((line) => line.startsWith('ERROR: ')).map((line) => line.slice('ERROR: '.length));
  const told = marked.filter((line) => line !== 'Exception:');
  // A folder of wheels that the installer's user cannot read.
  const ignored = lines.filter((line) => /^WARNING: .* is ignored/.test(line)).map((line) => line.slice(9));
  if (told.length > 0) return [...new Set([...told, ...ignored])].join('; ');
  const first = lines.findIndex((line) => /^\s*(error:|×)/.test(line));
  if (marked.length > 0 || first < 0) return lines.at(-1) ?? '';
  const drawn = lines.slice(first).map((line) => line.replace(/^[\s×╰─▶├│]+/, ''));
  return drawn.join(' ').replace(/^error: /, '');
}
