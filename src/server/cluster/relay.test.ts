import { expect, it } from 'vitest';
import { endToEnd, wordsOf } from './relay.ts';

it('passes on what is for the other end, and not what is for one connection', () => {
  const headers = { connection: ['Keep-Alive, X-Own'], 'x-own': ['1'], 'x-mine': ['2'], host: ['here'] };
  expect(endToEnd(headers)).toEqual({ 'x-mine': ['2'] });
});

it('reads a list as long as a header can be about as fast, whatever is in it', () => {
  const timed = (text: string): number => {
    const began = performance.now();
    for (let n = 0; n < 50; n++) wordsOf(text);
    return performance.now() - began;
  };
  timed('a, b');
  const plain = timed('a,'.repeat(8000));
  // One that looks back from every blank takes thousands of times as long.
  expect(timed(`a${' '.repeat(16_000)}b`)).toBeLessThan(10 * plain);
});
