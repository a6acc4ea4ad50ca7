/** Words that are one slip apart: a letter too many, too few, wrong, or two in the wrong order. */

const SHORTEST = 5;

/** The first of `words` that `word` is a slip of. Short words are left alone: too many of them are alike. */
export function nearestSpelling(word: string, words: Iterable<string>): string | undefined {
  if (word.length < SHORTEST) return undefined;
  for (const other of words) if (other.length >= SHORTEST - 1 && isOneSlip(word, other)) return other;
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
