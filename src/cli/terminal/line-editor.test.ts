import { EventEmitter } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LineEditor } from './line-editor.ts';
import { CliTerminal } from './terminal.ts';

/** A keyboard and a screen of 40 columns, whose writes take a while to be confirmed. */
function openEditor() {
  const shown = { text: '' };
  const raw: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: (on: boolean) => void raw.push(on) });
  const write = (text: unknown, done?: () => void) => {
    shown.text += String(text);
    if (done) void setImmediate().then(done);
    return true;
  };
  const screen = Object.assign(new Writable(), { isTTY: true, columns: 40, write });
  const terminal = new CliTerminal({ stdin, stdout: screen, stderr: screen });
  const stops: string[] = [];
  const job = Object.assign(new EventEmitter(), { stop: () => void stops.push(shown.text) });
  return { shown, raw, stops, stdin, terminal, job, editor: new LineEditor(terminal, () => {}, job) };
}

/** What stands on the screen after all that was written to it. */
function rows(text: string): string[] {
  const screen: string[] = [''];
  let row = 0;
  let column = 0;
  for (const [part, count, kind] of text.matchAll(/\p{Cc}\[(\d*)([A-Z])|./gsu)) {
    if (kind === undefined) {
      if (part === '\n') [row, column] = [row + 1, 0];
      else if (part === '\r') column = 0;
      else {
        if (column === 40) [row, column] = [row + 1, 0];
        screen[row] =
          (screen[row] ?? '').padEnd(column).slice(0, column) + part + (screen[row] ?? '').slice(column + 1);
        column++;
      }
    } else if (kind === 'A') row = Math.max(0, row - Number(count || 1));
    else if (kind === 'G') column = Number(count || 1) - 1;
    else if (kind === 'J') screen.splice(row, Infinity, (screen[row] ?? '').slice(0, column));
    else throw new Error(`this screen does not know ${JSON.stringify(part)}`);
    screen[row] ??= '';
  }
  return Array.from(screen, (line = '') => line.trimEnd());
}

describe('interject', () => {
  it.each(['typed', 'pasted'])('writes above a line of several rows that was %s', async (how) => {
    const { shown, stdin, terminal, editor } = openEditor();
    const line = editor.read({ prompt: '>>> ' });
    const text = 'a'.repeat(90);
    for (const key of how === 'typed' ? text : [text]) stdin.write(key);
    await setImmediate();
    await editor.printAbove(() => terminal.outLines('from behind'));
    expect(rows(shown.text)).toEqual(['from behind', `>>> ${'a'.repeat(36)}`, 'a'.repeat(40), 'a'.repeat(14)]);
    await editor.printAbove(() => terminal.outLines('again'));
    expect(rows(shown.text).slice(0, 3)).toEqual(['from behind', 'again', `>>> ${'a'.repeat(36)}`]);
    stdin.write('\r');
    expect(await line).toEqual({ kind: 'line', text });
    editor.close();
  });

  it('writes above a line that is still being typed', async () => {
    const { shown, stdin, terminal, editor } = openEditor();
    const line = editor.read({ prompt: '>>> ' });
    stdin.write(`${'a'.repeat(34)}`);
    await setImmediate();
    const interjected = editor.printAbove(() => terminal.outLines('from behind'));
    stdin.write('bbbbbb');
    await interjected;
    await setImmediate();
    expect(rows(shown.text)).toEqual(['from behind', `>>> ${'a'.repeat(34)}bb`, 'bbbb']);
    stdin.write('\r');
    expect(await line).toEqual({ kind: 'line', text: `${'a'.repeat(34)}bbbbbb` });
    editor.close();
  });
});

it('redraws a pasted line of several rows in place when it changes', async () => {
  const { shown, stdin, editor } = openEditor();
  const line = editor.read({ prompt: '>>> ' });
  stdin.write('a'.repeat(90));
  await setImmediate();
  stdin.write('\x01');
  stdin.write('b');
  await setImmediate();
  expect(rows(shown.text)).toEqual([`>>> b${'a'.repeat(35)}`, 'a'.repeat(40), 'a'.repeat(15)]);
  stdin.write('\r');
  expect(await line).toEqual({ kind: 'line', text: `b${'a'.repeat(90)}` });
  editor.close();
});

it('ignores pasted text for a question that needs a fresh answer', async () => {
  const { shown, stdin, editor } = openEditor();
  const first = editor.read({ prompt: '> ' });
  stdin.write('/sh ls\ry\rnext\runfinished');
  expect(await first).toEqual({ kind: 'line', text: '/sh ls' });
  const answer = editor.read({ prompt: 'sure? ', ignoreTypeahead: true });
  await setImmediate();
  expect(rows(shown.text)).toEqual(['> /sh ls', 'sure?']);
  stdin.write('no\r');
  expect(await answer).toEqual({ kind: 'line', text: 'no' });
  expect(await editor.read({ prompt: '> ' })).toEqual({ kind: 'line', text: 'y' });
  expect(await editor.read({ prompt: '> ' })).toEqual({ kind: 'line', text: 'next' });
  expect(rows(shown.text).slice(1)).toEqual(['sure? no', '> y', '> next', '']);
  editor.close();
});

describe('Ctrl-Z', () => {
  it('returns the terminal to the shell, and continues with the line', async () => {
    const { shown, raw, stops, stdin, job, editor } = openEditor();
    const line = editor.read({ prompt: '>>> ' });
    stdin.write('ab\x1a');
    await setImmediate();
    expect([stops.length, raw]).toEqual([1, [true, false]]);
    shown.text += '\nStopped\n';
    job.emit('SIGCONT');
    expect(raw.at(-1)).toBe(true);
    stdin.write('c\r');
    expect(await line).toEqual({ kind: 'line', text: 'abc' });
    expect(rows(shown.text).slice(0, 4)).toEqual(['>>> ab', 'Stopped', '>>> abc', '']);
    editor.close();
    expect(job.eventNames()).toEqual([]);
  });

  it('shows a password prompt again, without the typed text', async () => {
    const { shown, stdin, job, editor } = openEditor();
    const line = editor.read({ prompt: 'key: ', password: true });
    stdin.write('se\x1a');
    await setImmediate();
    shown.text += '\nStopped\n';
    job.emit('SIGCONT');
    stdin.write('cret\r');
    expect(await line).toEqual({ kind: 'line', text: 'secret' });
    expect(rows(shown.text).slice(0, 3)).toEqual(['key:', 'Stopped', 'key:']);
    editor.close();
  });

  it('does no harm if the job cannot be stopped', async () => {
    const { raw, stdin, editor } = openEditor();
    const line = editor.read({ prompt: '>>> ' });
    stdin.write('ab\x1a');
    await expect.poll(() => raw.at(-1)).toBe(true);
    stdin.write('c\r');
    expect(await line).toEqual({ kind: 'line', text: 'abc' });
    editor.close();
  });
});

describe('a prompt after unfinished output', () => {
  it.each([
    ['x'.repeat(30), `${'x'.repeat(30)}? `],
    ['漢'.repeat(30), '? '],
  ])('continues %s where the line has room for both', async (output, prompt) => {
    const { shown, terminal, editor } = openEditor();
    await terminal.out(output);
    const drawn = shown.text.length;
    const line = editor.read({ prompt: '? ' });
    const redrawn = shown.text.slice(drawn);
    expect(redrawn).toContain(prompt);
    expect(redrawn.includes(output)).toBe(prompt.includes(output));
    editor.close();
    expect(await line).toEqual({ kind: 'end' });
  });
});
