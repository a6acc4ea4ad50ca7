/** A profile as a person writes it: YAML, of which JSON is a part. */

import { LineCounter, parseDocument } from 'yaml';
import { type AgentProfile, parseProfile } from '../../protocol/agent-profile.ts';
import { CellaError } from '../../protocol/errors.ts';
import { UsageError } from '../command-errors.ts';

/** Of all that aliases stand for: a few lines of them can mean gigabytes. */
const MOST_ALIASES = 100;
const advice = 'Run `cella profiles set --help` to see one.';

export function readProfile(text: string, from: string): AgentProfile {
  const where = from === '-' ? 'The text on stdin' : from;
  try {
    return parseProfile(valueIn(text, where));
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    throw new UsageError(`${where}: ${error.message}`, advice);
  }
}

function valueIn(text: string, where: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
  const [error] = document.errors;
  if (error) {
    const [first = ''] = error.message.split('\n');
    throw new UsageError(`${where}, line ${lines.linePos(error.pos[0]).line}: ${first}`, advice);
  }
  try {
    // An empty file is a profile with nothing in it.
    return document.toJS({ maxAliasCount: MOST_ALIASES }) ?? {};
  } catch (cause) {
    // Too many aliases, or more nesting than the stack holds.
    throw new UsageError(`${where}: ${cause instanceof Error ? cause.message : String(cause)}.`, advice);
  }
}
