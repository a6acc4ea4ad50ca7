/** Words that are one slip apart: a letter too many, too few, wrong, or two in the wrong order. */

import { giveWay } from '../../lib/event-loop.ts';

const SHORTEST = 5;
/** Words that are compared before others have their turn. */
const AT_ONCE = 1000;

/** The first of `words` that `word` is a slip of. Short words are left alone: too many of them are alike. */
export async function nearestSpelling(word: string, words: Iterable<string>): Promise<string | undefined> {
  if (word.length < SHORTEST) return undefined;
  let looked = 0;
  for (const other of words) {
    if (++looked % AT_ONCE === 0) await giveWay();
    if (other.length >= SHORTEST - 1 && isOneSlip(word, other)) return other;
  }
  return undefined;
}

function isOneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  const restA = a.slice(start);
  const restB = b.slice(start);
  if (restA.slice(1) === restB || restA === restB.slice(1) || restA.slice(1) === restB.slice(1)) return true;
  return restA[0] === restB[1] && restA[1] === restB[0] && restA.slice(2) === restB.slice(2);
}
