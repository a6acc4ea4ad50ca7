import { describe, expect, it } from 'vitest';
import { closest, parseLine } from './parse.ts';

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

describe('closest', () => {
  const names = ['py', 'sh', 'vars', 'undo', 'checkpoint', 'restore', 'history', 'help', 'quit'];

  it.each([
    ['chekpoint', 'checkpoint'],
    ['ckeckpiont', 'checkpoint'],
    ['check', 'checkpoint'],
    ['yp', 'py'],
    ['histroy', 'history'],
    ['Py', 'py'],
    ['quti', 'quit'],
  ])('%s is likely %s', (typed, meant) => expect(closest(typed, names)).toBe(meant));

  it.each(['', 'deploy', 'xyz', '日本'])('%j is like none', (typed) => expect(closest(typed, names)).toBeUndefined());
});
