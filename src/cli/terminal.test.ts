import { PassThrough, Readable, Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Terminal } from './terminal.ts';

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
  it('waits for what was written', async () => {
    const order: string[] = [];
    const stdout = new Writable({
      write: (_chunk, _encoding, done) =>
        void setImmediate(() => {
          order.push('written');
          done();
        }),
    });
    const terminal = new Terminal({ stdin, stdout, stderr: new PassThrough() });
    void terminal.out('text');
    await terminal.flush();
    expect(order[0]).toBe('written');
  });

  it('does not wait long for a reader that does not read, once the command was ended from outside', async () => {
    const terminal = new Terminal({ stdin, stdout: reluctant(), stderr: new PassThrough() });
    void terminal.out('text');
    terminal.endSoon();
    await expect(terminal.flush()).resolves.toBeUndefined();
  });
});

describe('outLines', () => {
  it('gives a line and its beginning to the reader at once', () => {
    const stdout = reluctant();
    const terminal = new Terminal({ stdin, stdout, stderr: new PassThrough() });
    void terminal.outLines('a line');
    expect(stdout.taken).toBe('a line\n');
  });

  it('begins a line of its own, also in colour', async () => {
    const stdout = Object.assign(new PassThrough(), { isTTY: true });
    const terminal = new Terminal({ stdin, stdout, stderr: new PassThrough() });
    await terminal.out('no end');
    await terminal.outLines('red', 'red');
    expect(String(stdout.read())).toBe('no end\n\x1b[31mred\x1b[39m\n');
  });
});
