import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { approver } from './approval.ts';
import type { Line, LineRequest } from './lines.ts';
import { Questions } from './questions.ts';
import { Terminal } from './terminal.ts';

/** A person who sees one prompt after the other, and answers when the test says so. */
function scene() {
  const screen = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  const terminal = new Terminal({ stdin, stdout: screen.resume(), stderr: screen, noColor: true });
  const prompts: string[] = [];
  let reading: PromiseWithResolvers<Line> | undefined;
  const read = async ({ prompt, signal }: LineRequest): Promise<Line> => {
    while (reading) await reading.promise;
    if (signal?.aborted) return { kind: 'aborted' };
    const mine = Promise.withResolvers<Line>();
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
  const questions = new Questions({ session, lines, terminal, onInterrupt: () => {} });
  const input = (prompt: string) => questions.ask({ type: 'input_request', id: 1, prompt, password: false });
  const say = (text: string) => reading?.resolve({ kind: 'line', text });
  return { approve: approver({ terminal, lines: () => lines }), questions, input, say, prompts, answers };
}

const request = {
  ...{ tool: 'drop', recipe: undefined, arguments: {}, summary: 'drop all' },
  signal: new AbortController().signal,
};
const ALLOW = 'Allow it? [y/N] ';

it('of code that asks for leave meanwhile are put again after that, and no word of theirs comes between', async () => {
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

it('that come while a person is asked for leave wait, also before that is read', async () => {
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
