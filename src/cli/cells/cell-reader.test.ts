import { describe, expect, it } from 'vitest';
import type { Completeness } from '../../protocol/kernel-state.ts';
import type { InputLine, LineRequest } from '../terminal/line-input.ts';
import { completionsOf, finishCell, readBlock, readCell, readPythonBlock } from './cell-reader.ts';

/** Code is whole when it has no open block, or an empty line at its end. */
const session = {
  isComplete: async (code: string): Promise<Completeness> =>
    code.includes(':') && !code.endsWith('\n') ? { status: 'incomplete', indent: '    ' } : { status: 'complete' },
  complete: async (code: string, cursor = code.length) => ({
    matches: [{ text: 'print', type: 'function' }],
    start: code.lastIndexOf('p'),
    end: cursor,
  }),
};

function script(...lines: (string | InputLine['kind'])[]) {
  const requests: LineRequest[] = [];
  const read = async (request: LineRequest): Promise<InputLine> => {
    requests.push(request);
    const line = lines.shift() ?? 'end';
    return line === 'end' || line === 'interrupt' ? { kind: line } : { kind: 'line', text: line };
  };
  return { requests, read, close: () => {} };
}

describe('readCell', () => {
  it('skips empty lines and returns a complete one', async () => {
    expect(await readCell(session, script('', '  ', 'x + 1'), { prompts: false })).toBe('x + 1');
  });

  it('joins a block, and leaves its indentation to the user', async () => {
    const lines = script('def f():', '    return 1', '    ');
    expect(await readCell(session, lines, { prompts: true })).toBe('def f():\n    return 1\n    ');
    expect(lines.requests.map(({ prompt }) => prompt)).toEqual(['>>> ', '... ', '... ']);
  });

  it('drops an interrupted block', async () => {
    expect(await readCell(session, script('def f():', 'interrupt', 'x'), { prompts: true })).toBe('x');
  });

  it('returns a block that the end of the input cuts off, and then ends', async () => {
    const lines = script('for i in x:', '  print(i)');
    expect(await readCell(session, lines, { prompts: false })).toBe('for i in x:\n  print(i)');
    expect(await readCell(session, lines, { prompts: false })).toBeUndefined();
  });

  it('lets the execution report the mistake if the kernel cannot judge', async () => {
    const broken = { ...session, isComplete: () => Promise.reject(new Error('gone')) };
    expect(await readCell(broken, script('x'), { prompts: false })).toBe('x');
  });
});

describe('finishCell', () => {
  it('asks for more lines until the code is complete', async () => {
    const lines = script('    return 1', '');
    expect(await finishCell(session, lines, 'def f():', { prompts: true })).toBe('def f():\n    return 1\n');
    expect(lines.requests.map(({ prompt }) => prompt)).toEqual(['... ', '... ']);
  });

  it('asks for nothing if the code is complete', async () => {
    const lines = script('next');
    expect(await finishCell(session, lines, 'x', { prompts: true })).toBe('x');
    expect(lines.requests).toEqual([]);
  });

  it('is dropped by an interrupt, and ends at the end of the input', async () => {
    expect(await finishCell(session, script('interrupt'), 'def f():', { prompts: true })).toBeUndefined();
    expect(await finishCell(session, script('end'), 'def f():', { prompts: true })).toBe('def f():');
  });
});

describe('readPythonBlock', () => {
  const read = (...lines: string[]) => readPythonBlock(session, script(...lines), { prompts: true });

  it('reads lines up to an empty one', async () => expect(await read('x', 'y', ' ', 'z')).toBe('x\ny'));

  it('continues after an empty line inside a statement', async () => {
    const quotes = {
      ...session,
      isComplete: async (code: string): Promise<Completeness> =>
        code.split('"""').length % 2 === 0 ? { status: 'incomplete', indent: '' } : { status: 'complete' },
    };
    const lines = script('s = """a', '', 'b"""', '');
    expect(await readPythonBlock(quotes, lines, { prompts: false })).toBe('s = """a\n\nb"""');
  });

  it.each([[['']], [['interrupt']], [['x', 'interrupt']], [['end']]])('is empty after %j', async (lines) => {
    expect(await read(...lines)).toBeUndefined();
  });

  it('ends at the end of the input', async () => expect(await read('x', 'end')).toBe('x'));
});

it('readBlock ends at any empty line by default', async () => {
  const options = { prompts: false, isWhole: async () => true, complete: async () => [[], ''] as const };
  expect(await readBlock(script('echo "a', 'b"', '', 'c'), options)).toBe('echo "a\nb"');
});

describe('completionsOf', () => {
  it('replaces the end of the line, also after other lines', async () => {
    expect(await completionsOf(session, '', 'pri')).toEqual([['print'], 'pri']);
    expect(await completionsOf(session, 'if x:', '    pri')).toEqual([['print'], 'pri']);
  });

  it('indents if there is nothing to complete', async () => {
    expect(await completionsOf(session, 'if x:', '')).toEqual([['    '], '']);
  });
});
