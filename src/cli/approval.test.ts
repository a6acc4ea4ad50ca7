import { PassThrough, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import { approver } from './approval.ts';
import type { Line } from './lines.ts';
import { Terminal } from './terminal.ts';

/** A screen, and a person who answers when the test says so. */
function scene() {
  let text = '';
  const stream = new Writable({
    write: (chunk, _encoding, next) => {
      text += String(chunk);
      next();
    },
  });
  const screen = Object.assign(stream, { isTTY: true, columns: 80 });
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const terminal = new Terminal({ stdin, stdout: screen, stderr: screen, noColor: true });
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<Line>();
  const read = ({ prompt }: { prompt: string }) => {
    screen.write(prompt);
    asked.resolve();
    return answer.promise;
  };
  const approve = approver({ terminal, lines: () => ({ read, close: () => {} }) });
  const say = (line: string) => answer.resolve({ kind: 'line', text: line });
  return { terminal, approve, asked: asked.promise, say, raw: () => text, text: () => stripVTControlCharacters(text) };
}

const request = {
  tool: 'drop',
  recipe: undefined,
  arguments: {},
  summary: 'drop all',
  signal: new AbortController().signal,
};

it('shows nothing else while a person is asked, and all of it after', async () => {
  const { terminal, approve, asked, say, text } = scene();
  const answered = approve(request);
  await asked;
  const question = text();
  const told = [terminal.out('fake 1'), terminal.err('fake 2'), terminal.errLines('fake 3'), terminal.status('fake 4')];
  expect(await Promise.race([...told.slice(0, 3), new Promise((resolve) => setImmediate(resolve, 'held'))])).toBe(
    'held',
  );
  expect(text()).toBe(question);
  expect(question).toMatch(/drop requires approval, and would do this:\n {2}drop all\nAllow it\? \[y\/N\] $/);
  say('n');
  expect(await answered).toBe(false);
  await Promise.all(told);
  expect(text().slice(question.length)).toBe('fake 1fake 2\nfake 3\n');
});

it('asks on a screen that code has left in another state', async () => {
  const { terminal, approve, asked, say, raw } = scene();
  // Hidden text, drawing characters, no wrapping, one row to write in, another screen.
  await terminal.out('\u001b[8m\u001b(0\u001b[?7l\u001b[40;40r\u001b[?1049h');
  const before = raw().length;
  const answered = approve(request);
  await asked;
  const shown = raw().slice(before);
  const state = shown.slice(0, shown.indexOf('drop requires'));
  for (const reset of ['[0m', '(B', '[?7h', '[r', '[?47l']) expect(state).toContain(`\u001b${reset}`);
  say('yes');
  expect(await answered).toBe(true);
});
