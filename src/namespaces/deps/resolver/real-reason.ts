/** Where pip says only that it found nothing: what the index has, and why none of it fits. */

import type { Interpreter } from '../../../protocol/interpreter.ts';
import { parseRequirement, type Requirement } from '../../../protocol/requirement.ts';
import { indexesOf, type PackageSource, withoutSecrets } from '../source.ts';
import type { Failure } from '../words.ts';
import { Chooser } from './candidates.ts';
import { explain } from './explain.ts';
import { Fetcher } from './fetcher.ts';
import { LIMITS } from './limits.ts';
import { PackageFiles } from './package-files.ts';

const NOTHING = /^ERROR: Could not find a version that satisfies the requirement ([^ ]+)(?: \(from ([^)]*)\))?/;
const LONGEST_MS = 30_000;

/** Undefined where pip has said it, or where it cannot be found out. */
export async function realReason(
  lines: readonly string[],
  interpreter: Interpreter,
  source: PackageSource,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  const [, text = '', by] = lines.map((line) => NOTHING.exec(line)).find((found) => found !== null) ?? [];
  const asked = requirement(text);
  if (!asked) return undefined;
  const stop = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
  const places = new PackageFiles(source, new Fetcher(indexesOf(source), LIMITS, stop), LIMITS);
  try {
    const { name, versions: conditions } = asked;
    const files = await places.of(name);
    const chooser = new Chooser(interpreter);
    // Something fits after all: pip knows more, as where a wheel has said something else inside.
    if (chooser.candidates(files, conditions).length > 0) return undefined;
    const reason = explain({ name, conditions, files, where: places.where }, interpreter, chooser);
    const whole =
      by === undefined || by.startsWith('versions:') || by.startsWith('-r ')
        ? reason
        : `${by} needs ${text}: ${reason}`;
    return { reason: withoutSecrets(whole, source), scope: 'some' };
  } catch {
    return undefined; // pip's own words are told instead
  }
}

function requirement(text: string): Requirement | undefined {
  try {
    return parseRequirement(text);
  } catch {
    return undefined; // a word of pip's that is none
  }
}
