import { describe, expect, it } from 'vitest';
import { parseLine } from './chat.ts';

describe('parseLine', () => {
  it.each([
    ['/py x = 1', 'py', 'x = 1'],
    ['  /py   x = 1  ', 'py', 'x = 1'],
    ['/py', 'py', ''],
    ['/py\tx', 'py', 'x'],
    ['/sh echo "a  b" # c', 'sh', 'echo "a  b" # c'],
    ['/', '', ''],
    ['//', '/', ''],
    ['/usr/bin/env x', 'usr/bin/env', 'x'],
    ['/日本 語', '日本', '語'],
  ])('%j is a command', (line, name, argument) => {
    expect(parseLine(line)).toEqual({ kind: 'command', name, argument });
  });

  it.each(['hello', '1 / 2', 'a /py b', "'/py'", ''])('%j is none', (text) => {
    expect(parseLine(text)).toEqual({ kind: 'text', text });
  });
});
