import { describe, expect, it } from 'vitest';
import type { Completeness } from '../session/api.ts';
import { completeLine, readCell } from './cell-reader.ts';
import type { Line, LineRequest } from './lines.ts';

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

function script(...lines: (string | Line['kind'])[]) {
  const requests: LineRequest[] = [];
  const read = async (request: LineRequest): Promise<Line> => {
    requests.push(request);
    const line = lines.shift() ?? 'end';
    return line === 'end' || line === 'interrupt' ? { kind: line } : { kind: 'line', text: line };
  };
  return { requests, read, close: () => {} };
}

describe('readCell', () => {
  it('skips empty lines and takes one that is whole', async () => {
    expect(await readCell(session, script('', '  ', 'x + 1'), { prompts: false })).toBe('x + 1');
  });

  it('puts a block together, and leaves its indentation to the person', async () => {
    const lines = script('def f():', '    return 1', '    ');
    expect(await readCell(session, lines, { prompts: true })).toBe('def f():\n    return 1\n    ');
    expect(lines.requests.map(({ prompt }) => prompt)).toEqual(['>>> ', '... ', '... ']);
  });

  it('drops a block that is interrupted', async () => {
    expect(await readCell(session, script('def f():', 'interrupt', 'x'), { prompts: true })).toBe('x');
  });

  it('takes a block that the end of the input cuts off, and then ends', async () => {
    const lines = script('for i in x:', '  print(i)');
    expect(await readCell(session, lines, { prompts: false })).toBe('for i in x:\n  print(i)');
    expect(await readCell(session, lines, { prompts: false })).toBeUndefined();
  });

  it('lets the execution tell what is wrong where the kernel cannot judge', async () => {
    const broken = { ...session, isComplete: () => Promise.reject(new Error('gone')) };
    expect(await readCell(broken, script('x'), { prompts: false })).toBe('x');
  });
});

describe('completeLine', () => {
  it('replaces the end of the line, also behind other lines', async () => {
    expect(await completeLine(session, '', 'pri')).toEqual([['print'], 'pri']);
    expect(await completeLine(session, 'if x:', '    pri')).toEqual([['print'], 'pri']);
  });

  it('indents where there is nothing to complete', async () => {
    expect(await completeLine(session, 'if x:', '')).toEqual([['    '], '']);
  });
});
