import { expect, test } from 'vitest';
import { outputLimitOf } from './model-request.ts';

const UNNAMED = 128_000;

test('the limit of a call is read by its provider’s field, and is never less than possible', () => {
  expect(outputLimitOf('messages', { max_tokens: 100 })).toEqual({ tokens: 100, answers: 1 });
  expect(outputLimitOf('responses', { max_output_tokens: 100 })).toEqual({ tokens: 100, answers: 1 });
  expect(outputLimitOf('chat', { max_completion_tokens: 100, max_tokens: 50 })).toEqual({ tokens: 100, answers: 1 });
  expect(outputLimitOf('chat', { max_tokens: 100, n: 3 })).toEqual({ tokens: 300, answers: 3 });
  const config = { maxOutputTokens: 100, candidateCount: 2 };
  expect(outputLimitOf('gemini', { generationConfig: config })).toEqual({ tokens: 200, answers: 2 });
  expect(outputLimitOf('messages', { max_tokens: Number.MAX_SAFE_INTEGER }).tokens).toBe(10_000_000);
  expect(outputLimitOf('free', {})).toEqual({ tokens: 0, answers: 1 });
});

test('a call without a limit, or with an invalid one, may be answered with a model’s maximum', () => {
  // Gemini takes none for not said.
  const zero = { max_tokens: 0, max_output_tokens: 0, generationConfig: { maxOutputTokens: 0 } };
  const odd = [{}, { max_tokens: null }, { max_tokens: -5 }, { max_tokens: '1' }, zero, { generationConfig: 7 }, 7];
  for (const each of odd) {
    for (const format of ['messages', 'chat', 'responses', 'gemini'] as const)
      expect(outputLimitOf(format, each).tokens).toBe(UNNAMED);
  }
  expect(outputLimitOf('chat', { n: 'many' }).answers).toBe(128);
});

test('a field of another provider does not lower the limit', () => {
  const all = {
    max_tokens: 1,
    max_completion_tokens: 1,
    max_output_tokens: 1,
    generationConfig: { maxOutputTokens: 1 },
  };
  const without = (...names: string[]) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => !names.includes(name)));
  expect(outputLimitOf('messages', without('max_tokens')).tokens).toBe(UNNAMED);
  expect(outputLimitOf('responses', without('max_output_tokens')).tokens).toBe(UNNAMED);
  expect(outputLimitOf('chat', without('max_tokens', 'max_completion_tokens')).tokens).toBe(UNNAMED);
  expect(outputLimitOf('gemini', without('generationConfig')).tokens).toBe(UNNAMED);
});

test('Gemini’s other spelling counts too, and of both the larger one', () => {
  const other = { max_output_tokens: 500, candidate_count: 4 };
  expect(outputLimitOf('gemini', { generation_config: other })).toEqual({ tokens: 2000, answers: 4 });
  const both = { generationConfig: { maxOutputTokens: 1 }, generation_config: { ...other, maxOutputTokens: 2 } };
  expect(outputLimitOf('gemini', both)).toEqual({ tokens: 2000, answers: 4 });
  expect(outputLimitOf('gemini', { generationConfig: { maxOutputTokens: 1 }, generation_config: {} }).tokens).toBe(
    UNNAMED,
  );
});
