import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import type { Client } from '../../client/index.ts';
import { CliTerminal } from '../terminal/terminal.ts';
import { logs } from './session-logs.ts';

const printed = '\u001b[38;5;8mred\u001b[0m\r\n\u001b]0;title\u0007\u001b[2J\u001b[8mhidden\u001b[5;8mtoo\n';

const output = [{ type: 'stdout', seq: 1, at: 0, execution: 'exe_1', text: printed }];

async function shown({ isTTY, events = output }: { isTTY: boolean; events?: object[] }): Promise<string> {
  const session = { eventPage: async () => ({ events, next: 1, last: 1 }) };
  // As much of a server as a log needs.
  const client = {
    sessions: { get: async () => ({ id: 'ses_0000000000000001' }) },
    session: async () => session,
  } as unknown as Client;
  const stdout = Object.assign(new PassThrough(), { isTTY });
  const terminal = new CliTerminal({ stdin: new PassThrough(), stdout, stderr: new PassThrough(), noColor: true });
  const request = { name: 'ses_0000000000000001', after: 0, follow: false, json: false };
  await logs(client, request, { terminal, signal: new AbortController().signal });
  stdout.end();
  return await text(stdout);
}

it('shows output on a screen with its colours, and no other control characters', async () => {
  expect(await shown({ isTTY: true })).toBe(
    '\u001b[38;5;8mred\u001b[0m\n\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{1b}[8mhidden\\u{1b}[5;8mtoo\n',
  );
});

it('passes output to a program unchanged', async () => {
  expect(await shown({ isTTY: false })).toBe(printed);
});

it('shows a cell of several lines as one, and the reason for its end', async () => {
  const about = { seq: 1, at: 0, execution: 'exe_1' };
  const error = { name: 'KeyboardInterrupt', message: '', traceback: 'KeyboardInterrupt\n' };
  const events = [
    { ...about, type: 'execution_started', code: 'while True:\n  input()\n' },
    { ...about, type: 'input_request', id: 1, prompt: '', password: false },
    { ...about, type: 'result', status: 'timeout', error },
  ];
  expect(await shown({ isTTY: false, events })).toBe(
    '>>> while True:\n...   input()\n(asks for input)\nKeyboardInterrupt\n(stopped at its time limit)\n',
  );
});
