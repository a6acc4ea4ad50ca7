/** Search over 300 skills with questions in other words; see README.md beside it. */

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { stem } from '../../src/namespaces/search/stem.ts';
import { STOP_WORDS, TextIndex, wordsOf } from '../../src/namespaces/search/text-index.ts';

const Skill = z.object({ name: z.string(), description: z.string(), parameters: z.array(z.string()) });
const Question = z.object({ query: z.string(), expected: z.string() });

function read<T>(name: string, shape: z.ZodType<T>): T[] {
  return z.array(shape).parse(JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8')));
}

const skills = read('skills.json', Skill);
const sets = {
  tuning: read('questions-tuning.json', Question),
  'held-out': read('questions-held-out.json', Question),
};
const index = await TextIndex.of(
  skills.map(({ name, description, parameters }) => {
    return { id: name, title: name, text: description, extra: parameters.join(' ') };
  }),
);

const stemsOf = (text: string) =>
  new Set(
    wordsOf(text)
      .filter((word) => !STOP_WORDS.has(word))
      .map(stem),
  );

function sharedWords({ query, expected }: z.infer<typeof Question>): string[] {
  const skill = skills.find(({ name }) => name === expected);
  const own = stemsOf(`${skill?.name} ${skill?.description} ${skill?.parameters.join(' ')}`);
  return [...stemsOf(query)].filter((word) => own.has(word));
}

test('there are 300 skills, and enough questions that are all different', () => {
  expect(new Set(skills.map(({ name }) => name)).size).toBe(300);
  expect(sets['held-out'].length).toBeGreaterThanOrEqual(150);
  const all = Object.values(sets).flat();
  expect(new Set(all.map(({ query }) => query)).size).toBe(all.length);
});

describe.each(Object.entries(sets))('the %s questions', (_name, questions) => {
  test('use other words than the skill that they ask for', () => {
    const shared = questions.map(sharedWords);
    expect(shared.filter((words) => words.length > 1)).toEqual([]);
    expect(shared.filter((words) => words.length === 0).length / questions.length).toBeGreaterThan(0.5);
  });

  test('find it among the first five in nine of ten cases', async () => {
    const found = await Promise.all(questions.map(({ query }) => index.search(query, 5)));
    const missed = questions.filter(({ expected }, at) => !found[at]?.some(({ id }) => id === expected));
    const recall = 1 - missed.length / questions.length;
    expect(recall, `missed: ${missed.map(({ query }) => query).join('; ')}`).toBeGreaterThanOrEqual(0.9);
  });
});
