/** Text as words: lower case, without accents, names of code taken apart. */

/** A name of code or a sentence, as words in order. */
export function wordsOf(text: string): string[] {
  const plain = text
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase();
  return plain.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** Words that say nothing of what a text is about. */
export const SILENT: ReadonlySet<string> = new Set(
  `a about after again all along also am an and another any anything are as at be because been before being both but by can could did do does
  doing done each either else ever every everything few for from get gets give given go goes got had has have he her here him his how i if in into
  is it its itself just let like make makes many may me might more most much must my neither nor nothing need needs no not of off on once one onto
  only or other our out over own put same say see shall she should so some someone something still such take tell than that the
  their them then there these they thing things this those through to too under up us use used using very want was way
  we were what when where whether which while who whom within without whose why will with would yes you your s t re ve ll d m`.split(
    /\s+/,
  ),
);
