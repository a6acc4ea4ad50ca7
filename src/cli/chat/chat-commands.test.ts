import { describe, expect, it } from 'vitest';
import { complete, parseLine } from './chat-commands.ts';
import type { ChatState } from './chat-state.ts';

const session = {
  complete: async (code: string) => ({
    matches: [{ text: 'print', type: 'function' }],
    start: code.lastIndexOf('p'),
    end: code.length,
  }),
  skills: { list: async () => [{ name: 'double' }, { name: 'sum' }] },
  deps: { list: async () => ['pandas[all]>=2', 'httpx'] },
  checkpoints: async () => [
    { name: 'before', gone: undefined },
    { name: 'begin', gone: 'memory ran out' },
    { name: 'before' },
    { id: 'unnamed' },
  ],
};
const state = { session, autoPy: false } as unknown as ChatState;

describe('Tab in a chat', () => {
  it.each([
    ['/p', ['/py '], '/p'],
    ['/check', ['/checkpoint ', '/checkpoints '], '/check'],
    ['/nothing', [], '/nothing'],
    ['/py ', ['reset'], ''],
    ['/py x = pr', ['print'], 'pr'],
    ['/restore b', ['before'], 'b'],
    ['/help h', ['history', 'help'], 'h'],
    ['/sh l', [], '/sh l'],
    ['/skills s', ['search', 'show'], 's'],
    ['/skills run d', ['double'], 'd'],
    ['/deps remove p', ['pandas'], 'p'],
    ['/tools call grep p', [], 'call grep p'],
    ['hello', [], 'hello'],
  ])('%j', async (line, matches, replaced) => {
    expect(await complete(state, line)).toEqual([matches, replaced]);
  });

  it('completes Python in any line with --auto-py', async () => {
    expect(await complete({ ...state, autoPy: true }, 'pr')).toEqual([['print'], 'pr']);
  });
});

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

  it.each(['hello', '1 / 2', 'a /py b', "'/py'", ''])('%j is not a command', (text) => {
    expect(parseLine(text)).toEqual({ kind: 'text', text });
  });
});
