import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameError } from './kernel-frames.ts';
import { decodeValue, encodeText, encodeValue } from './kernel-marshal.ts';
import { PyObject, type PyValue, valueToJson } from './py-values.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

/** What the real Python sends for each of these expressions. */
function packed(expressions: readonly string[]): Buffer[] {
  const program = [
    'import json, marshal, sys',
    'sys.set_int_max_str_digits(0) if hasattr(sys, "set_int_max_str_digits") else None',
    'for line in json.load(sys.stdin): print(marshal.dumps(eval(line), 2).hex())',
  ].join('\n');
  const answer = execFileSync(python, ['-I', '-X', 'utf8', '-c', program], {
    input: JSON.stringify(expressions),
    maxBuffer: 1 << 28,
  });
  return answer
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => Buffer.from(line, 'hex'));
}

const fromPython = (...expressions: string[]): PyValue[] => packed(expressions).map(decodeValue);

function pythonLiteral(value: PyValue): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') {
    if (Number.isNaN(value)) return 'float("nan")';
    if (!Number.isFinite(value)) return value > 0 ? 'float("inf")' : 'float("-inf")';
    return Object.is(value, -0) ? '-0.0' : Number.isInteger(value) ? `float(${BigInt(value)})` : value.toString();
  }
  if (typeof value === 'string') {
    const units = [...value].map((char) => `\\U${(char.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`);
    return `"${units.join('')}"`;
  }
  if (value instanceof Uint8Array) return `bytes.fromhex("${Buffer.from(value).toString('hex')}")`;
  if (value instanceof PyObject) return `{(${pythonLiteral(value.type)}, ${pythonLiteral(value.repr)})}`;
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`;
  const items = Object.entries(value).map(([name, item]) => `${pythonLiteral(name)}: ${pythonLiteral(item)}`);
  return `{${items.join(', ')}}`;
}

const anyText = fc.string({ unit: 'binary' });
const { value: anyValue } = fc.letrec<{ value: PyValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.double(),
    fc.bigInt().filter((value) => value > 2n ** 53n || value < -(2n ** 53n)),
    anyText,
    fc.uint8Array({ maxLength: 20 }),
    fc.tuple(anyText, anyText).map(([type, repr]) => new PyObject(type, repr)),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(anyText, tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
}));

describe('values from Python', () => {
  it('have the right types', () => {
    expect(fromPython('None', 'True', 'False', '0', '-1', '2**31-1', '-2**31', '1.5', '"é😀"')).toEqual([
      null,
      true,
      false,
      0,
      -1,
      2147483647,
      -2147483648,
      1.5,
      'é😀',
    ]);
    expect(fromPython('[]', '()', '{}', '""', 'b""', '[1, (2, [3])]', '{"a": {"b": [None]}}')).toEqual([
      [],
      [],
      {},
      '',
      new Uint8Array(),
      [1, [2, [3]]],
      { a: { b: [null] } },
    ]);
    expect(fromPython('b"\\x00\\xff"')).toEqual([new Uint8Array([0, 255])]);
  });

  it('are numbers up to 2^53 - 1 and BigInts past it, on both sides', () => {
    expect(
      fromPython('2**53-1', '2**53', '2**53+1', '-(2**53-1)', '-2**53', '-(2**53+1)', '2**31', '-2**31-1'),
    ).toEqual([
      Number.MAX_SAFE_INTEGER,
      2n ** 53n,
      2n ** 53n + 1n,
      Number.MIN_SAFE_INTEGER,
      -(2n ** 53n),
      -(2n ** 53n) - 1n,
      2147483648,
      -2147483649,
    ]);
  });

  it('are exact at every power of two around a digit', () => {
    const powers = Array.from({ length: 130 }, (_, index) => index);
    const values = fromPython(...powers.flatMap((power) => [`2**${power}`, `-(2**${power}-1)`]));
    powers.forEach((power, index) => {
      expect(BigInt(values[index * 2] as number)).toBe(2n ** BigInt(power));
      expect(BigInt(values[index * 2 + 1] as number)).toBe(-(2n ** BigInt(power)) + 1n);
    });
  });

  it('can be integers of ten thousand digits', () => {
    expect(fromPython('10**10_000 - 1', '1 - 10**10_000')).toEqual([10n ** 10_000n - 1n, 1n - 10n ** 10_000n]);
  });

  it('can be NaN, infinite or minus zero', () => {
    expect(fromPython('float("nan")', 'float("inf")', 'float("-inf")', '-0.0')).toEqual([
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
      -0,
    ]);
  });

  it('can have a key named __proto__ that is a key like any other', () => {
    const [value] = fromPython('{"__proto__": {"polluted": 1}, "constructor": 2}');
    expect(Object.keys(value as object)).toEqual(['__proto__', 'constructor']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect((value as { polluted?: unknown }).polluted).toBeUndefined();
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('keep lone surrogates', () => {
    expect(fromPython('"\\ud800"', '"a\\udfffb"', '"\\udc80\\ud83d x"', '"\\ud800é😀\\ufffd"')).toEqual([
      '\ud800',
      'a\udfffb',
      '\udc80\ud83d x',
      '\ud800é😀\ufffd',
    ]);
  });

  it('without a JavaScript form are their type and repr', () => {
    expect(fromPython('{("set", "{1}")}', '[{("a.B", "<B>")}]')).toEqual([
      new PyObject('set', '{1}'),
      [new PyObject('a.B', '<B>')],
    ]);
    expect(fromPython('{("list", "[0, ...]", 60000)}')).toEqual([new PyObject('list', '[0, ...]', 60_000)]);
  });

  it('are the same as Python’s own literals', () => {
    const samples = fc.sample(anyValue, { numRuns: 300, seed: 7 });
    const values = fromPython(...samples.map(pythonLiteral));
    samples.forEach((sample, index) => {
      expect(values[index]).toEqual(sample);
    });
  });
});

describe('bytes that are not a value', () => {
  it('throw a FrameError if a value is cut at any byte', () => {
    const [whole] = packed(['{"a": [1, 2**70, 1.5, "é", b"x", None, (True, {("t", "r")})], "b": {}}']) as [Buffer];
    expect(() => decodeValue(whole)).not.toThrow();
    for (let end = 0; end < whole.length; end++) {
      expect(() => decodeValue(whole.subarray(0, end)), `cut after ${end} bytes`).toThrow(FrameError);
    }
  });

  it('throw a FrameError if bytes are left over', () => {
    expect(() => decodeValue(Buffer.from('NN'))).toThrow(FrameError);
  });

  it('never do anything but decode or throw a FrameError', () => {
    const tags = fc.constantFrom(...Buffer.from('NTFilgsu[({<0r'));
    const bytes = fc.array(fc.oneof(tags, fc.nat(255), fc.constant(0)), { maxLength: 200 });
    fc.assert(
      fc.property(bytes, (list) => {
        try {
          decodeValue(Buffer.from(list));
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it.each([
    ['a list with a count of 2^31 - 1', '5bffffff7f'],
    ['a list with a negative count', '5bffffffff'],
    ['text with a length of 2^31 - 1', '75ffffff7f'],
    ['an integer with a count of -2^31', '6c00000080'],
    ['a dict with a key that is no text', '7b4e4e30'],
    ['an opaque value that is empty', '3c00000000'],
    ['an opaque value of a number', '3c01000000690100000000'],
    ['code, which marshal knows and we do not', '63'],
  ])('throw a FrameError: %s', (_name, hex) => {
    expect(() => decodeValue(Buffer.from(hex, 'hex'))).toThrow(FrameError);
  });

  it('throw a FrameError if lists are nested endlessly', () => {
    const level = Buffer.from('5b01000000', 'hex');
    const deep = Buffer.concat([...Array.from({ length: 100_000 }, () => level), Buffer.from('N')]);
    expect(() => decodeValue(deep)).toThrow(FrameError);
  });
});

describe('text to Python', () => {
  it('is read by Python unchanged, lone surrogates included', () => {
    const texts = ['', 'plain', 'é😀', '\ud800', 'a\udc00b', '\ud83d\ud83d\ude00\ude00', '\ufffd'];
    const program =
      'import json, sys; print(json.dumps([bytes.fromhex(h).decode("utf-8", "surrogatepass") for h in json.load(sys.stdin)]))';
    const input = JSON.stringify(texts.map((text) => encodeText(text).toString('hex')));
    const answer = execFileSync(python, ['-I', '-c', program], { input });
    expect(JSON.parse(answer.toString())).toEqual(texts);
  });

  it('is plain UTF-8 if it is well-formed', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (text) => encodeText(text).equals(Buffer.from(text))));
  });
});

describe('values as JSON', () => {
  it('write integers of any size exactly', () => {
    expect(JSON.stringify(valueToJson([2n ** 64n, -(2n ** 64n), 1]))).toBe(
      '[18446744073709551616,-18446744073709551616,1]',
    );
  });

  it('write other values as small objects', () => {
    expect(
      valueToJson([Number.NaN, Number.NEGATIVE_INFINITY, new Uint8Array([1, 2]), new PyObject('set', '{1}')]),
    ).toEqual([
      { type: 'float', repr: 'nan' },
      { type: 'float', repr: '-inf' },
      { type: 'bytes', base64: 'AQI=' },
      { type: 'set', repr: '{1}' },
    ]);
  });

  it('keep a key named __proto__', () => {
    const [value] = fromPython('{"__proto__": 1}') as [PyValue];
    expect(JSON.stringify(valueToJson(value))).toBe('{"__proto__":1}');
  });
});

describe('a value that is made to be expensive', () => {
  it.each([
    ['containers', Buffer.from('{0')],
    ['bytes', Buffer.from('s\0\0\0\0')],
    ['nothings', Buffer.from('N')],
  ])('by many small %s is refused', (_what, empty) => {
    const listOf = (count: number) => {
      const list = Buffer.alloc(5 + empty.length * count);
      list.write('[');
      list.writeInt32LE(count, 1);
      for (let at = 5; at < list.length; at += empty.length) empty.copy(list, at);
      return list;
    };
    expect(decodeValue(listOf(50_000))).toHaveLength(50_000);
    expect(() => decodeValue(listOf(52_000))).toThrow(FrameError);
  });

  it('by many keys is refused', () => {
    const dictOf = (count: number) =>
      Buffer.concat([Buffer.from('{'), Buffer.alloc(7 * count, 'u\x01\0\0\0aN'), Buffer.from('0')]);
    expect(decodeValue(dictOf(50_000))).toEqual({ a: null });
    expect(() => decodeValue(dictOf(52_000))).toThrow(FrameError);
  });

  it('by an integer of more than 10,000 digits is refused', () => {
    const [fits, long] = packed(['1 << 33_219', '1 << 33_230']) as [Buffer, Buffer];
    expect(decodeValue(fits)).toBe(1n << 33_219n);
    expect(() => decodeValue(long)).toThrow(FrameError);
  });

  it('by a size that is not a number is refused', () => {
    for (const size of ['"x"', '1.5', '2**60']) {
      expect(() => fromPython(`{("list", "[]", ${size})}`)).toThrow(FrameError);
    }
  });
});

it('text of lone surrogates is encoded quickly', () => {
  const begun = performance.now();
  expect(encodeText('\udc80'.repeat(1_000_000))).toHaveLength(3_000_000);
  expect(performance.now() - begun).toBeLessThan(150);
});

/** What the real Python reads. */
function readByPython(values: readonly PyValue[]): string[] {
  const program =
    'import json, marshal, sys\nfor line in json.load(sys.stdin): print(ascii(marshal.loads(bytes.fromhex(line))))';
  const hex = values.map((value) => encodeValue(value).toString('hex'));
  return execFileSync(python, ['-I', '-c', program], { input: JSON.stringify(hex) })
    .toString()
    .trimEnd()
    .split('\n');
}

describe('values for a kernel', () => {
  it('are read by Python with the same types', () => {
    const values: [PyValue, string][] = [
      [null, 'None'],
      [true, 'True'],
      [0, '0'],
      [-1, '-1'],
      [2 ** 31, '2147483648'],
      [-(2 ** 31) - 1, '-2147483649'],
      [2n ** 100n, (2n ** 100n).toString()],
      [-(2n ** 15n), '-32768'],
      [0n, '0'],
      [0.5, '0.5'],
      [-0, '-0.0'],
      [Number.POSITIVE_INFINITY, 'inf'],
      ['ä "quoted" \ud800', '\'\\xe4 "quoted" \\ud800\''],
      [new Uint8Array([0, 255]), "b'\\x00\\xff'"],
      [[1, ['x'], {}], "[1, ['x'], {}]"],
      [JSON.parse('{"__proto__": 1, "a": null}'), "{'__proto__': 1, 'a': None}"],
    ];
    expect(readByPython(values.map(([value]) => value))).toEqual(values.map(([, text]) => text));
  });

  it('are returned unchanged', () => {
    const anything = fc.letrec<{ value: PyValue }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constant(null),
        fc.boolean(),
        fc.double(),
        fc.integer(),
        fc.bigInt().filter((value) => value > 2n ** 53n || value < -(2n ** 53n)),
        fc.string({ unit: 'binary' }),
        fc.uint8Array({ maxLength: 20 }),
        fc.array(tie('value'), { maxLength: 5 }),
        fc.dictionary(fc.string(), tie('value'), { maxKeys: 5 }),
      ),
    })).value;
    fc.assert(
      fc.property(anything, (value) => {
        expect(decodeValue(encodeValue(value))).toEqual(value);
      }),
    );
  });

  it('are the same if they are long: texts in pieces, surrogates and pairs at every place', () => {
    const texts = ['\ud800', '\udc80', 'a', '\u00e9', '\u20ac', '\ud83d\ude00', 'a\ud83d\ude00', '\ud83d\ud83d\ude00'];
    for (const text of texts) {
      const long = `${text.repeat(40_000)}${text}`;
      const value = { [long.slice(0, 40_001)]: [long, long.length], end: true };
      expect(decodeValue(encodeValue(value))).toEqual(value);
    }
  });
});
