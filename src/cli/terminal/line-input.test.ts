import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { PipedLines } from './line-input.ts';

const silent = async () => {};

async function readAll(chunks: (string | Buffer)[]): Promise<string[]> {
  const lines = new PipedLines(Readable.from(chunks.map((chunk) => Buffer.from(chunk))), silent);
  const read: string[] = [];
  for (;;) {
    const line = await lines.read({ prompt: '' });
    if (line.kind !== 'line') return read;
    read.push(line.text);
  }
}

describe('PipedLines', () => {
  it('loses no line of a chunk with several', async () => {
    expect(await readAll(['a\nb\nc\n'])).toEqual(['a', 'b', 'c']);
  });

  it('joins a line that arrives in pieces, and returns a last one without a newline', async () => {
    expect(await readAll(['he', 'llo', '\nwor', 'ld'])).toEqual(['hello', 'world']);
  });

  it('keeps empty lines, and accepts line ends of Windows', async () => {
    expect(await readAll(['\n\na\r', '\n\r\n'])).toEqual(['', '', 'a', '']);
  });

  it('keeps a character whole that is split between chunks', async () => {
    const bytes = Buffer.from('é€😀\n');
    expect(await readAll([...bytes].map((byte) => Buffer.from([byte])))).toEqual(['é€😀']);
  });

  it('keeps reporting the end of the input', async () => {
    const lines = new PipedLines(Readable.from([]), silent);
    expect(await lines.read({ prompt: '' })).toEqual({ kind: 'end' });
    expect(await lines.read({ prompt: '' })).toEqual({ kind: 'end' });
  });

  it('reads nothing before a line is requested', () => {
    const input = new PassThrough();
    new PipedLines(input, silent);
    expect(input.readableFlowing).toBe(null);
    expect(input.listenerCount('readable')).toBe(0);
  });

  it('leaves the line of an aborted read to the next read', async () => {
    const input = new PassThrough();
    const lines = new PipedLines(input, silent);
    const stop = new AbortController();
    const first = lines.read({ prompt: '', signal: stop.signal });
    stop.abort();
    expect(await first).toEqual({ kind: 'aborted' });
    input.write('kept\n');
    expect(await lines.read({ prompt: '' })).toEqual({ kind: 'line', text: 'kept' });
    lines.close();
  });

  it('shows the prompt before it waits', async () => {
    const shown: string[] = [];
    const lines = new PipedLines(Readable.from([Buffer.from('Ada\n')]), async (prompt) => void shown.push(prompt));
    await lines.read({ prompt: 'name? ' });
    expect(shown).toEqual(['name? ']);
  });
});
