import { PassThrough, Readable, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { CliTerminal } from './terminal.ts';

const stdin = Readable.from([]);

/** Takes what it is given, and never says that it is done with it. */
function reluctant(): Writable & { taken: string } {
  const stream = new Writable({
    write: (chunk) => {
      Object.assign(stream, { taken: stream.taken + String(chunk) });
    },
  }) as Writable & { taken: string };
  return Object.assign(stream, { taken: '' });
}

describe('flush', () => {
  it('waits for written output', async () => {
    const order: string[] = [];
    const stdout = new Writable({
      write: (_chunk, _encoding, done) =>
        void setImmediate(() => {
          order.push('written');
          done();
        }),
    });
    const terminal = new CliTerminal({ stdin, stdout, stderr: new PassThrough() });
    void terminal.out('text');
    await terminal.flush();
    expect(order[0]).toBe('written');
  });

  it('does not wait long for a reader that does not read, if the command was ended from outside', async () => {
    const terminal = new CliTerminal({ stdin, stdout: reluctant(), stderr: new PassThrough() });
    void terminal.out('text');
    terminal.skipFlush();
    await expect(terminal.flush()).resolves.toBeUndefined();
  });
});

describe('outLines', () => {
  it('passes a complete or begun line to the reader at once', () => {
    const stdout = reluctant();
    const terminal = new CliTerminal({ stdin, stdout, stderr: new PassThrough() });
    void terminal.outLines('a line');
    expect(stdout.taken).toBe('a line\n');
  });

  it('begins a new line, also in colour', async () => {
    const stdout = Object.assign(new PassThrough(), { isTTY: true });
    const terminal = new CliTerminal({ stdin, stdout, stderr: new PassThrough() });
    await terminal.out('no end');
    await terminal.outLines('red', 'red');
    expect(String(stdout.read())).toBe('no end\n\x1b[31mred\x1b[39m\n');
  });
});

describe('lines on a screen', () => {
  const hostile = 'a\u001b]0;title\u0007b\u001b[2Jc\u009b31md\u202ee\rf\u001b[8mg';

  it('show control characters as text, and keep colours, lines and tabs', async () => {
    const stdout = Object.assign(new PassThrough(), { isTTY: true });
    const stderr = Object.assign(new PassThrough(), { isTTY: true });
    const terminal = new CliTerminal({ stdin, stdout, stderr });
    await terminal.outLines(`${hostile}\n\tx \u001b[32mgreen\u001b[0m`);
    await terminal.errLines(hostile, 'red');
    const [out, err] = [String(stdout.read()), String(stderr.read())];
    for (const text of [out, err]) {
      expect(text).toContain('a\\u{1b}]0;title\\u{7}b\\u{1b}[2Jc\\u{9b}31md\\u{202e}e\\rf\\u{1b}[8mg');
    }
    expect(out).toContain('\n\tx \u001b[32mgreen\u001b[0m\n');
    expect(err.startsWith('\u001b[31ma')).toBe(true);
  });

  it('are unchanged for a program or a file', async () => {
    const stdout = new PassThrough();
    await new CliTerminal({ stdin, stdout, stderr: new PassThrough() }).outLines(hostile);
    expect(String(stdout.read())).toBe(`${hostile}\n`);
  });
});

describe('a status', () => {
  const screen = () => Object.assign(new PassThrough(), { isTTY: true, columns: 20 });

  it('replaces the previous one, and is replaced by later output', async () => {
    const stderr = screen();
    const terminal = new CliTerminal({ stdin, stdout: stderr, stderr, noColor: true });
    await terminal.status('one');
    await terminal.status('another that is far too long');
    await terminal.outLines('done');
    expect(String(stderr.read())).toBe('\r\u001b[Kone\r\u001b[Kanother that is fa…\r\u001b[Kdone\n');
  });

  it('begins a new line after unfinished output, and shows control characters as text', async () => {
    const stderr = screen();
    const terminal = new CliTerminal({ stdin, stdout: stderr, stderr, noColor: true });
    await terminal.out('half');
    await terminal.status('\u001b[2Jx');
    expect(String(stderr.read())).toBe('half\n\r\u001b[K\\u{1b}[2Jx');
  });

  it('is a separate line without a screen', async () => {
    const stderr = new PassThrough();
    const terminal = new CliTerminal({ stdin, stdout: new PassThrough(), stderr });
    await terminal.status('one');
    await terminal.status('two');
    expect(String(stderr.read())).toBe('one\ntwo\n');
  });
});

describe('alone', () => {
  it('asks one question after the other, and shows waiting output between or after them', async () => {
    let text = '';
    const write = (chunk: unknown, _encoding: string, done: () => void) => {
      text += String(chunk);
      done();
    };
    const screen = Object.assign(new Writable({ write }), { isTTY: true });
    const terminal = new CliTerminal({ stdin, stdout: screen, stderr: screen, noColor: true });
    const answers = ['a', 'b', 'c'].map(() => Promise.withResolvers<void>());
    const ask = (at: number) =>
      terminal.exclusive(async ({ errLines }) => {
        await errLines(`${at}?`);
        await answers[at]?.promise;
        await errLines(`${at}!`);
      });
    const first = ask(0);
    const rest = [terminal.outLines('early'), ask(1), terminal.outLines('late'), ask(2)];
    for (const { resolve } of answers) {
      resolve();
      await new Promise((next) => setImmediate(next));
    }
    await Promise.all([first, ...rest]);
    const lines = stripVTControlCharacters(text).replaceAll('\u000f', '').split('\n');
    expect(lines.filter((line) => /[?!]/.test(line))).toEqual(['0?', '0!', '1?', '1!', '2?', '2!']);
    expect(lines.indexOf('late')).toBeGreaterThan(lines.indexOf('early'));
    for (const told of ['early', 'late']) expect(lines[lines.indexOf(told) - 1]).not.toMatch(/\?$/);
  });
});
