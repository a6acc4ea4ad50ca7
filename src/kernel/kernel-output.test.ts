import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KernelLimit } from '../protocol/kernel-frames.ts';
import type { ByteSource } from './kernel-connection.ts';
import { MarkedOutput } from './kernel-output.ts';

const marker = Buffer.alloc(KernelLimit.markerBytes, 0xff);
marker.write('a random marker', 1, 'latin1');

const tag = Buffer.alloc(KernelLimit.tagBytes, 0xff);
tag.write('the random tag.', 1, 'latin1');

function tagged(owner: number, text: string, length = Buffer.byteLength(text)): Buffer {
  const header = Buffer.alloc(6);
  header.writeUInt32LE(owner, 0);
  header.writeUInt16LE(length, 4);
  return Buffer.concat([tag, header, Buffer.from(text)]);
}

/** How the tests show the text of an owner. Pieces of a text look like the whole text. */
const by = (owner: number, text: string) => [...text].map((character) => `<${owner}: ${character}>`).join('');

/** A descriptor that the test writes to. It keeps the bytes while reading is paused. */
class Pipe implements ByteSource {
  ended = false;
  #waiting: Buffer[] = [];
  #reading = false;
  #onChunk: (chunk: Buffer) => boolean = () => false;
  #onEnd: () => void = () => {};

  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
    this.#reading = true;
  }

  resume(): void {
    this.#reading = true;
    while (this.#reading && this.#waiting.length > 0) this.#give(this.#waiting.shift() as Buffer);
  }

  close(): void {}

  write(chunk: Buffer | string): void {
    this.#waiting.push(Buffer.from(chunk));
    if (this.#reading) this.resume();
  }

  end(): void {
    this.ended = true;
    this.#onEnd();
  }

  get reading(): boolean {
    return this.#reading;
  }

  /** A chunk is only valid during the call, so it is overwritten after it. */
  #give(chunk: Buffer): void {
    this.#reading = this.#onChunk(chunk);
    chunk.fill(0x58);
  }
}

/** A stream with a frame for each marker. Frames are handled as soon as they are reached; with `held`, by `handle`. */
function open(settings: { held?: boolean; unknown?: boolean; full?: () => boolean } = {}) {
  const pipe = new Pipe();
  const seen: string[] = [];
  let markers = 0;
  const handle = (): boolean => {
    if (!stream.reached(markers + 1)) return false;
    markers++;
    seen.push(`<marker ${markers}>`);
    stream.release(markers);
    return true;
  };
  const stream: MarkedOutput = new MarkedOutput(
    pipe,
    (text, owner) => {
      seen.push(owner === undefined ? text : by(owner, text));
      return !settings.full?.();
    },
    () => {
      while (!settings.held && !pipe.ended && handle());
    },
  );
  if (!settings.unknown) stream.open(tag);
  stream.begin(marker);
  return { pipe, stream, handle, seen, text: () => seen.join('') };
}

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const offsets = [...new Set(cuts.map((at) => at % (bytes.length + 1)))].sort((one, other) => one - other);
  const ends = [...offsets, bytes.length];
  return ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end));
}

describe('an output stream', () => {
  it('is text between markers, wherever its chunks are cut', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('\u00ff', 'ÿÿÿ', '😀'),
      fc.constant(null), // a marker
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 10 }), fc.array(fc.nat()), (pieces, cuts) => {
        const { pipe, stream, text } = open();
        const bytes = Buffer.concat(pieces.map((part) => (part === null ? marker : Buffer.from(part))));
        for (const chunk of cut(bytes, cuts)) pipe.write(chunk);
        stream.finish();
        let markers = 0;
        expect(text()).toBe(pieces.map((part) => part ?? `<marker ${++markers}>`).join(''));
      }),
      { numRuns: 500 },
    );
  });

  it('keeps a marker whole that is split at any byte', () => {
    const bytes = Buffer.concat([Buffer.from('before'), marker, Buffer.from('after')]);
    for (let at = 0; at <= bytes.length; at++) {
      const { pipe, text } = open();
      pipe.write(bytes.subarray(0, at));
      pipe.write(bytes.subarray(at));
      expect(text(), `cut at ${at}`).toBe('before<marker 1>after');
    }
  });

  it('keeps a character whole that is split at any byte', () => {
    const bytes = Buffer.from('é😀');
    for (let at = 0; at <= bytes.length; at++) {
      const { pipe, text } = open();
      pipe.write(bytes.subarray(0, at));
      pipe.write(bytes.subarray(at));
      expect(text()).toBe('é😀');
    }
  });

  it('delivers the start of a marker that turns out to be text', () => {
    const { pipe, text } = open();
    pipe.write(marker.subarray(0, 5));
    expect(text()).toBe('');
    pipe.write('x');
    expect(text()).toBe(`${marker.subarray(0, 5).toString()}x`);
  });

  it('delivers the start of a marker as text when the execution is over', () => {
    const { pipe, stream, text } = open();
    pipe.write(Buffer.concat([Buffer.from('a'), marker.subarray(0, 15)]));
    expect(text()).toBe('a');
    stream.finish();
    expect(text()).toBe(`a${marker.subarray(0, 15).toString()}`);
  });

  it('delivers half a character as a replacement when the execution is over', () => {
    const { pipe, stream, text } = open();
    pipe.write(Buffer.from('é').subarray(0, 1));
    stream.finish();
    expect(text()).toBe('\ufffd');
  });

  it('does not recognize the marker of an execution that is over', () => {
    const { pipe, stream, text } = open();
    stream.finish();
    pipe.write(marker);
    stream.finish();
    expect(text()).toBe(marker.toString());
  });

  it('holds back output after a marker until its frame is handled', () => {
    const { pipe, handle, seen } = open({ held: true });
    pipe.write(Buffer.concat([Buffer.from('one'), marker, Buffer.from('two'), marker, Buffer.from('three')]));
    expect(seen).toEqual(['one']);
    expect(pipe.reading).toBe(false);
    expect(handle()).toBe(true);
    expect(seen).toEqual(['one', '<marker 1>', 'two']);
    expect(handle()).toBe(true);
    expect(seen).toEqual(['one', '<marker 1>', 'two', '<marker 2>', 'three']);
    expect(handle()).toBe(false);
    expect(pipe.reading).toBe(true);
  });

  it('stops reading while its reader is slow, and resumes there', () => {
    let full = true;
    const { pipe, stream, text } = open({ full: () => full });
    pipe.write('one ');
    expect(stream.paused).toBe(true);
    expect(pipe.reading).toBe(false);
    pipe.write('two ');
    pipe.write('three');
    expect(text()).toBe('one ');
    full = false;
    stream.resume();
    expect(text()).toBe('one two three');
    expect(stream.paused).toBe(false);
    expect(pipe.reading).toBe(true);
  });

  it('has not reached a frame while text before that frame waits for a slow reader', () => {
    let full = true;
    const { pipe, stream, handle, text } = open({ held: true, full: () => full });
    pipe.write(Buffer.concat([Buffer.from('one '), marker, Buffer.from('two ')]));
    // The pipe is empty, so the kernel writes no second marker, but `two` is not delivered yet.
    expect(stream.reached(1)).toBe(false);
    full = false;
    stream.resume();
    expect(handle()).toBe(true);
    expect(text()).toBe('one <marker 1>two ');
  });

  it('counts as having reached every marker when it has ended', async () => {
    const { pipe, stream } = open();
    expect(stream.reached(1)).toBe(false);
    pipe.end();
    await stream.end;
    expect(stream.reached(5)).toBe(true);
  });

  it('continues without a marker that the code has swallowed', () => {
    const { pipe, stream, text } = open({ held: true });
    pipe.write('one');
    expect(stream.reached(1)).toBe(false);
    stream.release(1);
    pipe.write('two');
    expect(text()).toBe('onetwo');
  });

  describe('with tagged pieces', () => {
    it('assigns them to their execution, wherever its chunks are cut', () => {
      const piece = fc.oneof(
        fc.string({ unit: 'grapheme' }),
        fc.record({ owner: fc.integer({ min: 1, max: 9 }), text: fc.string({ unit: 'grapheme', minLength: 1 }) }),
        fc.constant(null), // a marker
      );
      fc.assert(
        fc.property(fc.array(piece, { maxLength: 10 }), fc.array(fc.nat()), (pieces, cuts) => {
          const { pipe, stream, text } = open();
          const bytes = pieces.map((part) => {
            if (part === null) return marker;
            return typeof part === 'string' ? Buffer.from(part) : tagged(part.owner, part.text);
          });
          for (const chunk of cut(Buffer.concat(bytes), cuts)) pipe.write(chunk);
          stream.finish();
          let markers = 0;
          const expected = pieces.map((part) => {
            if (part === null) return `<marker ${++markers}>`;
            return typeof part === 'string' ? part : by(part.owner, part.text);
          });
          expect(text()).toBe(expected.join(''));
        }),
        { numRuns: 500 },
      );
    });

    it('keeps a character whole that is split between two of them', () => {
      const { pipe, text } = open();
      const [one, other] = [Buffer.from('é').subarray(0, 1), Buffer.from('é').subarray(1)];
      pipe.write(Buffer.concat([one, tagged(1, 'between'), other]));
      expect(text()).toBe(`${by(1, 'between')}é`);
    });

    it('waits for the rest of a partial one, also when the execution is over', () => {
      const { pipe, stream, text } = open();
      const bytes = tagged(1, 'late');
      pipe.write(bytes.subarray(0, 18));
      stream.finish();
      pipe.write(bytes.subarray(18));
      expect(text()).toBe(by(1, 'late'));
    });

    it('treats an incomplete one as text', () => {
      const { pipe, stream, text } = open();
      pipe.write(tagged(1, 'cut', 100));
      stream.finish();
      expect(text()).toBe('');
      pipe.end();
      expect(text()).toMatch(/cut$/);
    });

    it('treats one over the maximum length as text', () => {
      const { pipe, text } = open();
      pipe.write(tagged(1, 'forged', 65_000));
      expect(text()).toMatch(/forged$/);
    });

    it('delivers nothing before the tag is known', () => {
      const { pipe, stream, text } = open({ unknown: true });
      pipe.write(tagged(1, 'early'));
      expect(text()).toBe('');
      stream.open(tag);
      expect(text()).toBe(by(1, 'early'));
    });

    it('delays one while its reader is slow', () => {
      let full = true;
      const { pipe, stream, text } = open({ full: () => full });
      pipe.write(Buffer.concat([Buffer.from('one '), tagged(1, 'two')]));
      expect(text()).toBe('one ');
      full = false;
      stream.resume();
      expect(text()).toBe(`one ${by(1, 'two')}`);
    });
  });
});
