/** What a kernel sends: frames, values, displays, and what its code writes. */

import type { Target } from '../engine.ts';

const kernelTypes = 'hrpcxqtvwlfaZ';

async function onlyFrameErrors() {
  const { FrameError } = await import('../../../src/protocol/kernel-frames.ts');
  return (work: () => void) => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
    }
  };
}

export async function frames(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { FrameDecoder, encodeFrame } = await import('../../../src/protocol/kernel-frames.ts');
  const kernel = await import('../../../src/protocol/kernel-payloads.ts');
  const parsers: Record<string, (payload: Buffer) => unknown> = {
    ...{ h: kernel.parseHello, r: kernel.parseResult, p: kernel.parseDisplay, q: kernel.parseAnswerPayload },
    c: (payload) => {
      const { method, params } = kernel.parseCall(payload);
      return method === 'input' ? kernel.parseInputCall(params) : params;
    },
    ...{ t: kernel.parseSnapshotTaken, w: kernel.parseSaved, l: kernel.parseLoaded, f: kernel.parseFailed },
    ...{
      a: kernel.parseAttached,
      o: kernel.parseOpened,
      d: kernel.parseDied,
      g: kernel.parseSnapshotLost,
      m: kernel.parseMeasured,
    },
    v: (payload) => {
      const { header, bytes } = kernel.parsePart(payload);
      return kernel.parsePart(kernel.encodePart(header, bytes));
    },
  };
  const largest = new Map([...kernel.fromSupervisor, ...kernel.fromKernel]);
  return {
    name: 'frames',
    parser: [{ file: 'protocol/kernel-frames.ts' }, { file: 'protocol/kernel-payloads.ts' }],
    words: [...kernelTypes, 'status', 'ok', 'markers', '{', '0', '[\x01\0\0\0', 'u\x04\0\0\0name'],
    take: (input) =>
      attempt(() => {
        const decoder = new FrameDecoder(largest);
        // Wherever the chunks are cut, the frames are the same.
        const cut = input.length === 0 ? 0 : (input[0] ?? 0) % input.length;
        for (const chunk of [input.subarray(0, cut), input.subarray(cut, cut + 3), input.subarray(cut + 3)]) {
          for (const { type, id, payload } of decoder.push(chunk)) {
            attempt(() => parsers[String.fromCharCode(type)]?.(payload));
            if (!encodeFrame(type, id, payload).subarray(9).equals(payload)) throw new Error('a frame that changes');
          }
        }
      }),
  };
}

export async function parts(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { parsePart } = await import('../../../src/protocol/kernel-payloads.ts');
  return {
    name: 'parts',
    parser: [{ file: 'protocol/kernel-payloads.ts', functions: ['parsePart', 'parseJson', 'check'] }],
    words: ['"names":', '["x"]', '"last":true', '"kind":"pickle"', '"portable":false', '{', '}', ',', '[[[['],
    take: (input) => attempt(() => parsePart(input)),
  };
}

const VALUE_WORDS = [
  'N',
  'T',
  'F',
  'i\x01\0\0\0',
  'l\x02\0\0\0\x01\0\x01\0',
  'l\x09\0\0\0',
  'g',
  's\x01\0\0\0x',
  'u\x03\0\0\0\xed\xa0\x80',
];

export async function values(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { decodeValue, encodeText } = await import('../../../src/protocol/kernel-marshal.ts');
  const { encodeValue } = await import('../../../src/protocol/kernel-marshal.ts');
  const {
    valueFromWire: fromWire,
    valueToJson,
    valueToWire: toWire,
  } = await import('../../../src/protocol/py-values.ts');
  return {
    name: 'values',
    parser: [
      {
        file: 'protocol/kernel-marshal.ts',
        functions: [
          'decodeValue',
          'decodeCounted',
          'MarshalReader',
          'value',
          '#count',
          '#byte',
          '#int32',
          '#double',
          '#text',
          '#size',
          '#skip',
          '#take',
          '#long',
          '#fewDigits',
          '#list',
          '#dict',
          '#opaque',
          'bigFromDigits',
          'isAscii',
          'decodeText',
          'hasSurrogate',
          'decodeWithSurrogates',
          'takePlain',
          'encodeText',
          'writeText',
        ],
      },
      {
        file: 'protocol/py-values.ts',
        functions: [
          'valueToWire',
          'valueFromWire',
          'objectToWire',
          'numberToWire',
          'intToText',
          'intFromText',
          'valueToJson',
          'toBase64',
          'fromBase64',
        ],
      },
    ],
    words: [
      ...VALUE_WORDS,
      '[\x02\0\0\0',
      '(\x01\0\0\0',
      '{',
      '0',
      '<\x01\0\0\0(\x02\0\0\0',
      'u\x09\0\0\0__proto__',
      'u\x02\0\0\0$a',
    ],
    take: (input) =>
      attempt(() => {
        const value = decodeValue(input);
        const sent = toWire(value);
        const wire = JSON.stringify(sent);
        // V8 13.6 misreads escaped keys: after JSON.parse('{"a":1,"\\\\":2}'), JSON.parse('{"a":1,"\\n":2}') has the key "\\".
        const received = wire.includes('\\') ? sent : JSON.parse(wire);
        if (JSON.stringify(toWire(fromWire(received))) !== wire) throw new Error('a value that changes on the wire');
        decodeValue(encodeValue(value));
        JSON.stringify(valueToJson(value));
        encodeText(wire);
        if (typeof value === 'string') encodeText(value);
      }),
  };
}

export async function mime(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { parseDisplay } = await import('../../../src/protocol/kernel-payloads.ts');
  const { bundleFromWire, bundleToWire } = await import('../../../src/protocol/execution-events.ts');
  return {
    name: 'mime',
    parser: [
      { file: 'protocol/kernel-payloads.ts', functions: ['parseDisplay', 'check'] },
      { file: 'protocol/execution-events.ts', functions: ['bundleFromWire', 'bundleToWire'] },
    ],
    words: [...VALUE_WORDS, '{', '0', 'u\x0a\0\0\0text/plain', 'u\x04\0\0\0data', 'u\x07\0\0\0dataCuti\x01\0\0\0'],
    take: (input) =>
      attempt(() => {
        const wire = bundleToWire(parseDisplay(input).data);
        bundleFromWire(JSON.parse(JSON.stringify(wire)));
      }),
  };
}

const MARK = '\xffa mark of chaos';
const LABEL = '\xffa label of ours';

/** What code writes, with marks and labelled pieces in it: it is the same text wherever it is cut, and nothing is lost. */
export async function output(): Promise<Target> {
  const { MarkedOutput } = await import('../../../src/kernel/kernel-output.ts');
  const read = (input: Buffer, size: number): string => {
    let [told, lastOwner, marks, taken, at] = ['', undefined as number | undefined, 0, 0, 0];
    let give: (chunk: Buffer) => boolean = () => false;
    let end = () => {};
    let [isReading, isOver] = [true, false];
    const pump = () => {
      while (isReading && at < input.length) {
        const chunk = Buffer.from(input.subarray(at, at + size));
        at += size;
        isReading = give(chunk);
        // It is only lent.
        chunk.fill(0);
      }
    };
    const source = {
      read: (onChunk: typeof give, onEnd: typeof end) => {
        [give, end] = [onChunk, onEnd];
      },
      resume: () => {
        isReading = true;
      },
      close: () => {},
    };
    const stream = new MarkedOutput(
      source,
      (text, owner) => {
        told += owner === lastOwner ? text : `<${owner}>${text}`;
        lastOwner = owner;
        return ++taken % 3 !== 0;
      },
      () => heed(),
    );
    // As the kernel does it: a frame is handled once its mark is reached.
    const heed = () => {
      while (!isOver && stream.reached(marks + 1)) {
        marks++;
        told += '|';
        stream.release(marks);
      }
    };
    stream.begin(Buffer.from(MARK, 'latin1'));
    stream.open(Buffer.from(LABEL, 'latin1'));
    for (pump(); at < input.length || stream.paused; pump()) {
      stream.resume();
      heed();
    }
    isOver = true;
    end();
    stream.finish();
    stream.close();
    return told.replace(/\ufffd+/g, '?').replace(/\|+$/, '');
  };
  return {
    name: 'output',
    parser: [
      { file: 'kernel/kernel-output.ts', class: 'MarkedOutput' },
      { file: 'kernel/kernel-output.ts', functions: ['nextSign', 'signAt', 'taggedTextAt', 'begins'] },
    ],
    words: [
      MARK,
      MARK.slice(0, 7),
      LABEL,
      `${LABEL}\x01\0\0\0\x02\0hi`,
      `${LABEL}\x02\0\0\0\0\0`,
      '\xff',
      '\xff\xff',
      '\xc3',
      '\n',
    ],
    take: (input) => {
      if (read(input, input.length + 1) !== read(input, 1 + (input.length % 13)))
        throw new Error(
          `it depends on how the output was cut: ${JSON.stringify([read(input, input.length + 1), read(input, 1 + (input.length % 13))])}`,
        );
    },
  };
}
