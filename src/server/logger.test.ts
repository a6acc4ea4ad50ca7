import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LogWriter, openLogs, readableLine } from './logger.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cella-logs-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A pipe that is written to without blocking, and its reading end. */
function pipe(): { readonly fd: number; readonly reader: number } {
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { fd: openSync(path, constants.O_WRONLY | constants.O_NONBLOCK), reader };
}

/** What is in the pipe now. */
function drain(reader: number): string {
  const parts: Buffer[] = [];
  for (const buffer = Buffer.alloc(65_536); ; ) {
    try {
      const count = readSync(reader, buffer);
      if (count === 0) break;
      parts.push(Buffer.from(buffer.subarray(0, count)));
    } catch {
      break; // it is empty
    }
  }
  return Buffer.concat(parts).toString();
}

const line = (n: number) => `${JSON.stringify({ n, text: 'x'.repeat(1000) })}\n`;

it('lines are in the file in order when the logs are closed', async () => {
  const path = join(folder, 'log');
  const logs = openLogs('info', path);
  for (let n = 0; n < 5000; n++) logs.log.info({ n }, 'line');
  await logs.close();
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines.map((text) => JSON.parse(text).n)).toEqual(Array.from({ length: 5000 }, (_, n) => n));
});

it('many servers in one process listen for errors of stderr only once', async () => {
  await openLogs('info').close();
  const before = process.stderr.listenerCount('error');
  const all = Array.from({ length: 20 }, () => openLogs('info'));
  expect(process.stderr.listenerCount('error')).toBe(before);
  for (const logs of all) await logs.close();
});

it('a file that cannot be opened is reported at once', () => {
  expect(() => openLogs('info', join(folder, 'missing', 'log'))).toThrow(
    expect.objectContaining({ code: 'INVALID_OPTIONS', message: expect.stringContaining('ENOENT') }),
  );
});

it('a reader that does not read loses lines, gets their number, and delays neither writes nor shutdown', async () => {
  const { fd, reader } = pipe();
  const lines = new LogWriter(fd);
  const sent = 12_000; // some 12 MB, where 8 are kept
  for (let n = 0; n < sent; n++) lines.write(line(n));
  let text = '';
  const dropped = () => Number(/"dropped":(\d+)/.exec(text)?.[1] ?? 0);
  await expect
    .poll(
      () => {
        text += drain(reader);
        return dropped();
      },
      { interval: 1 },
    )
    .toBeGreaterThan(0);
  const came = text.split('\n').filter((one) => one.startsWith('{"n"')).length;
  expect(came + dropped()).toBe(sent);
  for (let n = 0; n < 500; n++) lines.write(line(n));
  await lines.close(); // nobody reads
  closeSync(reader);
});

it('a reader that has disconnected delays nothing', async () => {
  const { fd, reader } = pipe();
  closeSync(reader);
  const lines = new LogWriter(fd);
  for (let n = 0; n < 10_000; n++) lines.write(line(n));
  await lines.close();
});

it('a full disk does not delay shutdown', async () => {
  const lines = new LogWriter(openSync('/dev/full', 'w'));
  lines.write(line(1));
  await lines.close();
});

const time = new Date(2026, 0, 2, 15, 39, 54).toISOString();

it('a request is a readable line on a terminal', () => {
  const request = { method: 'POST', path: '/v1/sessions', status: 201, ms: 60.2, from: 'local', user: 'ada' };
  const line = JSON.stringify({ level: 30, time, pid: 1, requestId: 'x', ...request, msg: 'request' });
  expect(readableLine(line)).toBe('15:39:54 POST /v1/sessions 201 60.2 ms (ada)\n');
});

it('other lines show their level, fields and the stack of an error on a terminal', () => {
  const err = { type: 'Error', message: 'no', stack: 'Error: no\n    at place' };
  const line = JSON.stringify({ level: 50, time, pid: 1, session: 'ses_1', err, msg: 'a save failed' });
  expect(readableLine(line)).toBe('15:39:54 error: a save failed session="ses_1"\n  Error: no\n      at place\n');
});

it('what a client sends cannot control the terminal', () => {
  const path = '/v1/\u001b[2J\u009b1m\u202e\n';
  const request = JSON.stringify({ level: 30, time, method: 'GET', path, status: 404, ms: 1, msg: 'request' });
  expect(readableLine(request)).toBe('15:39:54 GET /v1/\\u{1b}[2J\\u{9b}1m\\u{202e}\\u{a} 404 1 ms\n');
  const other = JSON.stringify({ level: 40, time, name: path, err: { stack: `Error: ${path}` }, msg: path });
  for (const character of '\u001b\u009b\u202e') expect(readableLine(other)).not.toContain(character);
});
