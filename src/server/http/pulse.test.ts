import { expect, test } from 'vitest';
import { Pulse } from './pulse.ts';

const quiet = { room: true, listening: true };

test('one that answers is asked again and again', () => {
  const pulse = new Pulse();
  for (let beat = 0; beat < 5; beat++) {
    expect(pulse.beat(quiet)).toBe('ask');
    pulse.heard();
  }
});

test('one that was asked and gives no sign is let go', () => {
  const pulse = new Pulse();
  expect(pulse.beat(quiet)).toBe('ask');
  expect(pulse.beat(quiet)).toBe('let go');
});

test('one that could not be asked, while much was on its way to it, is not missed', () => {
  const pulse = new Pulse();
  expect(pulse.beat({ ...quiet, room: false })).toBe('wait');
  expect(pulse.beat({ ...quiet, room: false })).toBe('wait');
  expect(pulse.beat(quiet)).toBe('ask');
  expect(pulse.beat(quiet)).toBe('let go');
});

test('one that is not listened to cannot say', () => {
  const pulse = new Pulse();
  expect(pulse.beat({ ...quiet, listening: false })).toBe('ask');
  expect(pulse.beat(quiet)).toBe('ask');
});
