import { describe, expect, test } from 'vitest';
import { CallTiming, maxProduced } from './charging.ts';

const asked = (tokens: number, answers = 1, streamed = true) => ({ outputLimit: { tokens, answers }, streamed });

describe('output that a provider may have made and never reports', () => {
  test('of a stream is what it had time for, and a moment more until the provider notices', () => {
    expect(maxProduced(asked(32_000), { workedMs: 0, isOver: false })).toBe(1000);
    expect(maxProduced(asked(32_000), { workedMs: 4001, isOver: false })).toBe(3001);
    expect(maxProduced(asked(32_000), { workedMs: 4000, isOver: true })).toBe(2000);
    expect(maxProduced(asked(32_000), { workedMs: -5, isOver: true })).toBe(0);
  });

  test('is never more than outputLimit, and applies to each of several answers', () => {
    expect(maxProduced(asked(32_000), { workedMs: 3_600_000, isOver: false })).toBe(32_000);
    expect(maxProduced(asked(96_000, 3), { workedMs: 10_000, isOver: true })).toBe(15_000);
  });

  test('without a stream is outputLimit, unless the answer was complete', () => {
    expect(maxProduced(asked(32_000, 1, false), { workedMs: 1, isOver: false })).toBe(32_000);
    expect(maxProduced(asked(32_000, 1, false), { workedMs: 1000, isOver: true })).toBe(500);
  });
});

test('a call is in progress from when the provider may have it, and not at all if it was refused', () => {
  let now = 100;
  const course = new CallTiming(() => now);
  now = 200;
  expect(course.workedMs).toBeUndefined();
  course.sent();
  now = 250;
  expect(course.workedMs).toBe(50);
  course.answered(200);
  expect(course.workedMs).toBe(50);
  for (const status of [302, 400, 429, 500]) {
    course.answered(status);
    expect(course.workedMs).toBeUndefined();
  }
});
