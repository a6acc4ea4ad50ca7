import { expect, it } from 'vitest';
import { cellToLine, cwdCell, shellCell } from './code-commands.ts';

it.each(['ls', 'echo "a\nb" \\', "it's", '日本 🎉', '"""', '\u2028'])('%j is restored as it was typed', (command) => {
  expect(cellToLine(shellCell(command))).toBe(`/sh ${command}`);
});

it('keeps the command out of the Python source', () => {
  const cell = shellCell('"})\nimport os\nos._exit(1)#');
  expect(cell.split('\n')).toHaveLength(2);
});

it('omits cells that nobody has typed, and keeps all others unchanged', () => {
  expect(cellToLine(cwdCell)).toBeUndefined();
  expect(cellToLine('x = 1')).toBe('x = 1');
  expect(cellToLine('# /sh is not for me\nx')).toBe('# /sh is not for me\nx');
});
