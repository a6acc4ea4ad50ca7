import { expect, it } from 'vitest';
import {
  escapeControls,
  formatAgo,
  formatDuration,
  formatNames,
  formatSize,
  formatTime,
  shellQuote,
} from './format.ts';

it('writes sizes for people', () => {
  expect([999, 1500, 2_300_000].map(formatSize)).toEqual(['999 bytes', '2 kB', '2.3 MB']);
});

it('writes durations for people', () => {
  const times = [0, 1234, 59_400, 61_000, 3_600_000, 172_800_000];
  expect(times.map(formatDuration)).toEqual(['0.0 s', '1.2 s', '59 s', '1 min', '1 h', '2 days']);
});

it('shows how long ago something was, also after the clock was set back', () => {
  expect(formatAgo(1000, 4500)).toBe('3.5 s ago');
  expect(formatAgo(5000, 1000)).toBe('0.0 s ago');
});

it('shows local times', () => {
  expect(formatTime(new Date(2026, 2, 4, 5, 6, 7).getTime())).toBe('2026-03-04 05:06:07');
});

it('keeps text on one line, without control characters', () => {
  expect(escapeControls('a\nb\x1b[0m é 🎉 \ud800')).toBe('a\\nb\\u{1b}[0m é 🎉 \ufffd');
  // What turns the direction of writing, and what takes no room at all.
  expect(escapeControls('a\u202eb\u061cc\u200bd\u{e0041}👩\u200d💻')).toBe(
    'a\\u{202e}b\\u{61c}c\\u{200b}d\\u{e0041}👩\u200d💻',
  );
});

it('quotes a word for a shell', () => {
  expect(['ada', 'a b', "it's", '', '-x'].map(shellQuote)).toEqual(['ada', "'a b'", "'it'\\''s'", "''", '-x']);
});

it('names the first of many', () => {
  expect(formatNames(['a', 'b'])).toBe('a, b');
  expect(formatNames(['a', 'b', 'c'], 2)).toBe('a, b and 1 more');
});
