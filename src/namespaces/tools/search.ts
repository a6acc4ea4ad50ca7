/** Finds tools by words in their names, tags, descriptions, recipes and arguments, without anything from outside. */

import { inSlices } from '../../lib/event-loop.ts';
import type { ToolInfo } from './info.ts';

/** Of a query. */
const MOST_WORDS = 64;
/** How much a word counts by where it was found. */
const WEIGHTS = { name: 10, tags: 6, recipes: 4, description: 3, parameters: 1 } as const;

/** Best first; those that share no word with the query are left out. */
export async function searchTools(infos: readonly ToolInfo[], query: string, limit: number): Promise<ToolInfo[]> {
  const wanted = [...new Set(words(query))].slice(0, MOST_WORDS);
  if (wanted.length === 0) return infos.slice(0, limit);
  const scored: { readonly info: ToolInfo; readonly score: number }[] = [];
  for await (const info of inSlices(infos)) scored.push({ info, score: score(info, wanted) });
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || a.info.name.localeCompare(b.info.name))
    .slice(0, limit)
    .map(({ info }) => info);
}

function score(info: ToolInfo, wanted: readonly string[]): number {
  const described = ({ name, description }: { name: string; description: string }) => words(`${name} ${description}`);
  const fields: [number, string[]][] = [
    [WEIGHTS.name, words(info.name)],
    [WEIGHTS.tags, info.tags.flatMap(words)],
    [WEIGHTS.recipes, info.recipes.flatMap(described)],
    [WEIGHTS.description, words(info.description)],
    [WEIGHTS.parameters, [info, ...info.recipes].flatMap(({ parameters }) => parameters.flatMap(described))],
  ];
  let total = 0;
  for (const word of wanted) {
    const scores = fields.map(([weight, found]) => weight * Math.max(0, ...found.map((one) => likeness(word, one))));
    // A word in several places says more than in one.
    total += Math.max(...scores) + 0.1 * scores.reduce((sum, one) => sum + one, 0);
  }
  return total;
}

/** The same word, one that begins alike (`search`, `searching`), or one inside another. */
function likeness(wanted: string, found: string): number {
  if (wanted === found) return 1;
  const shorter = Math.min(wanted.length, found.length);
  if (shorter < 3) return 0;
  if (wanted.startsWith(found) || found.startsWith(wanted)) return 0.7;
  return shorter >= 4 && (found.includes(wanted) || wanted.includes(found)) ? 0.3 : 0;
}

function words(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}
