/** How much a call may be answered with, by the names that each provider has for it. */

import { z } from 'zod';
import type { Wire } from './doors.ts';

/** Of a call that says nothing of it: as much as any model of these providers answers with. */
const UNNAMED_OUTPUT = 128_000;
const MOST_OUTPUT = 10_000_000;
const MOST_ANSWERS = 128;

export interface Wanted {
  /** Tokens of output, of all answers together. */
  readonly tokens: number;
  /** That many at once. */
  readonly answers: number;
}

const tokens = z.int().min(1).catch(UNNAMED_OUTPUT).optional();
const answers = z.int().min(1).max(MOST_ANSWERS).catch(MOST_ANSWERS).optional();
/** Gemini takes each name in two spellings. */
const config = z
  .looseObject({
    maxOutputTokens: tokens,
    max_output_tokens: tokens,
    candidateCount: answers,
    candidate_count: answers,
  })
  .catch({})
  .optional();
const Body = z.looseObject({
  max_tokens: tokens,
  max_completion_tokens: tokens,
  max_output_tokens: tokens,
  n: answers,
  generationConfig: config,
  generation_config: config,
});
type Body = z.infer<typeof Body>;

export const WANTED: readonly string[] = Object.keys(Body.shape);

/** A name of another provider's says nothing: whoever does not know it passes over it. */
export function wantedOf(wire: Wire, body: unknown): Wanted {
  const { data = {} } = Body.safeParse(body);
  const { most, count } = saidTo(wire, data);
  return { tokens: Math.min(most * count, MOST_OUTPUT), answers: count };
}

function saidTo(wire: Wire, said: Body): { readonly most: number; readonly count: number } {
  switch (wire) {
    case 'messages':
      return { most: largest(said.max_tokens), count: 1 };
    case 'responses':
      return { most: largest(said.max_output_tokens), count: 1 };
    case 'chat':
      return { most: largest(said.max_completion_tokens, said.max_tokens), count: said.n ?? 1 };
    case 'gemini': {
      // Of two, nobody knows which one counts.
      const given = [said.generationConfig, said.generation_config].filter((each) => each !== undefined);
      const counts = given.flatMap((each) => [each.candidateCount ?? 1, each.candidate_count ?? 1]);
      const most = given.map((each) => largest(each.maxOutputTokens, each.max_output_tokens));
      return { most: largest(...most), count: Math.max(1, ...counts) };
    }
    case 'free':
      return { most: 0, count: 1 };
  }
}

function largest(...named: readonly (number | undefined)[]): number {
  const all = named.filter((each) => each !== undefined);
  return all.length === 0 ? UNNAMED_OUTPUT : Math.max(...all);
}
