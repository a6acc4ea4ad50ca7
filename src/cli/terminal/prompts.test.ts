import { PassThrough, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import type { InputLine, LineRequest } from './line-input.ts';
import { approvalPrompter, InputPrompter } from './prompts.ts';
import { CliTerminal } from './terminal.ts';

/** A person who sees one prompt after the other, and answers when the test says so. */
function scene() {
  const screen = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const terminal = new CliTerminal({ stdin, stdout: screen.resume(), stderr: screen, noColor: true });
  const prompts: string[] = [];
  let reading: PromiseWithResolvers<InputLine> | undefined;
  const read = async ({ prompt, signal }: LineRequest): Promise<InputLine> => {
    while (reading) await reading.promise;
    if (signal?.aborted) return { kind: 'aborted' };
    const mine = Promise.withResolvers<InputLine>();
    reading = mine;
    prompts.push(prompt);
    signal?.addEventListener('abort', () => mine.resolve({ kind: 'aborted' }));
    void mine.promise.then(() => {
      reading = undefined;
    });
    return await mine.promise;
  };
  const lines = { read, close: () => {} };
  const answers: string[] = [];
  const session = {
    answerInput: async (_id: number, text: string) => void answers.push(text),
    cancelInput: async () => {},
  };
  const questions = new InputPrompter({ session, lines, terminal, onInterrupt: () => {} });
  const input = (prompt: string) => questions.ask({ type: 'input_request', id: 1, prompt, password: false });
  const say = (text: string) => reading?.resolve({ kind: 'line', text });
  return { approve: approvalPrompter({ terminal, lines: () => lines }), questions, input, say, prompts, answers };
}

const request = {
  ...{ tool: 'drop', recipe: undefined, arguments: {}, summary: 'drop all' },
  signal: new AbortController().signal,
};
const ALLOW = 'Allow it? [y/N] ';

it('of code that asks for approval meanwhile are shown again after that, with nothing of theirs in between', async () => {
  const { approve, input, say, prompts, answers } = scene();
  const before = input('before ');
  await expect.poll(() => prompts).toEqual(['before ']);
  const answered = approve(request);
  const meanwhile = input('Allow all of it? ');
  await expect.poll(() => prompts).toEqual(['before ', ALLOW]);
  say('y');
  expect(await answered).toBe(true);
  await expect.poll(() => prompts).toEqual(['before ', ALLOW, 'before ']);
  say('one');
  await before;
  await expect.poll(() => prompts.at(-1)).toBe('Allow all of it? ');
  say('two');
  await meanwhile;
  expect(answers).toEqual(['one', 'two']);
});

it('that arrive while a person is asked for approval wait, even before the answer is read', async () => {
  const { approve, input, say, prompts, questions } = scene();
  const answered = approve(request);
  // The words of what is asked for are on their way to the screen.
  await Promise.resolve();
  const asked = input('Allow all of it? ');
  await expect.poll(() => prompts).toEqual([ALLOW]);
  say('n');
  expect(await answered).toBe(false);
  await expect.poll(() => prompts).toEqual([ALLOW, 'Allow all of it? ']);
  // The code has ended.
  questions[Symbol.dispose]();
  await asked;
});

/** A screen, and a person who answers when the test says so. */
function approvalScene() {
  let text = '';
  const stream = new Writable({
    write: (chunk, _encoding, next) => {
      text += String(chunk);
      next();
    },
  });
  const screen = Object.assign(stream, { isTTY: true, columns: 80 });
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const terminal = new CliTerminal({ stdin, stdout: screen, stderr: screen, noColor: true });
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<InputLine>();
  const read = ({ prompt }: { prompt: string }) => {
    screen.write(prompt);
    asked.resolve();
    return answer.promise;
  };
  const approve = approvalPrompter({ terminal, lines: () => ({ read, close: () => {} }) });
  const say = (line: string) => answer.resolve({ kind: 'line', text: line });
  return { terminal, approve, asked: asked.promise, say, raw: () => text, text: () => stripVTControlCharacters(text) };
}

const approvalRequest = {
  tool: 'drop',
  recipe: undefined,
  arguments: {},
  summary: 'drop all',
  signal: new AbortController().signal,
};

it('shows nothing else while a person is asked, and everything afterwards', async () => {
  const { terminal, approve, asked, say, text } = approvalScene();
  const answered = approve(approvalRequest);
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

it('asks correctly on a screen that code has left in another state', async () => {
  const { terminal, approve, asked, say, raw } = approvalScene();
  // Hidden text, drawing characters, no wrapping, one row to write in, another screen.
  await terminal.out('\u001b[8m\u001b(0\u001b[?7l\u001b[40;40r\u001b[?1049h');
  const before = raw().length;
  const answered = approve(approvalRequest);
  await asked;
  const shown = raw().slice(before);
  const state = shown.slice(0, shown.indexOf('drop requires'));
  for (const reset of ['[0m', '(B', '[?7h', '[r', '[?47l']) expect(state).toContain(`\u001b${reset}`);
  say('yes');
  expect(await answered).toBe(true);
});
