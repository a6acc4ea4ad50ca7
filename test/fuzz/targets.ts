/** Every parser that a kernel, a runner or a client can reach. Each is loaded when it is fuzzed. */

import type { IncomingMessage } from 'node:http';
import type { Target } from './engine.ts';

const kernelTypes = 'hrpcxqtvwlfaZ';

async function onlyFrameErrors() {
  const { FrameError } = await import('../../src/protocol/frames.ts');
  return (work: () => void) => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
    }
  };
}

async function frames(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { FrameDecoder, encodeFrame } = await import('../../src/protocol/frames.ts');
  const kernel = await import('../../src/protocol/kernel.ts');
  const parsers: Record<string, (payload: Buffer) => unknown> = {
    ...{ h: kernel.parseHello, r: kernel.parseResult, p: kernel.parseDisplay, q: kernel.parseAnswer },
    c: (payload) => {
      const [method, params] = kernel.parseCall(payload);
      return method === 'input' ? kernel.parseInputCall(params) : params;
    },
    ...{ t: kernel.parseTwinned, w: kernel.parseSaved, l: kernel.parseLoaded, f: kernel.parseFailed },
    ...{
      a: kernel.parseAttached,
      o: kernel.parseOpened,
      d: kernel.parseDied,
      g: kernel.parseGone,
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
    parser: [{ file: 'protocol/frames.ts' }, { file: 'protocol/kernel.ts' }],
    words: [...kernelTypes, 'status', 'ok', 'marks', '{', '0', '[\x01\0\0\0', 'u\x04\0\0\0name'],
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

async function parts(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { parsePart } = await import('../../src/protocol/kernel.ts');
  return {
    name: 'parts',
    parser: [{ file: 'protocol/kernel.ts', functions: ['parsePart', 'parseJson', 'check'] }],
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

async function values(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { decodeValue, encodeText, valueToJson } = await import('../../src/protocol/values.ts');
  const { encodeValue } = await import('../../src/protocol/encode-value.ts');
  const { fromWire, toWire } = await import('../../src/protocol/http/values.ts');
  return {
    name: 'values',
    parser: [
      { file: 'protocol/values.ts' },
      {
        file: 'protocol/http/values.ts',
        functions: ['toWire', 'fromWire', 'objectToWire', 'numberToWire', 'intToText', 'intFromText'],
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
        const wire = JSON.stringify(toWire(value));
        if (JSON.stringify(toWire(fromWire(JSON.parse(wire)))) !== wire)
          throw new Error('a value that changes on the wire');
        decodeValue(encodeValue(value));
        JSON.stringify(valueToJson(value));
        encodeText(wire);
        if (typeof value === 'string') encodeText(value);
      }),
  };
}

async function mime(): Promise<Target> {
  const attempt = await onlyFrameErrors();
  const { parseDisplay } = await import('../../src/protocol/kernel.ts');
  const { bundleFromWire, bundleToWire } = await import('../../src/protocol/http/results.ts');
  return {
    name: 'mime',
    parser: [
      { file: 'protocol/kernel.ts', functions: ['parseDisplay', 'check'] },
      { file: 'protocol/http/results.ts', functions: ['bundleFromWire', 'bundleToWire'] },
    ],
    words: [...VALUE_WORDS, '{', '0', 'u\x0a\0\0\0text/plain', 'u\x04\0\0\0data', 'u\x07\0\0\0dataCuti\x01\0\0\0'],
    take: (input) =>
      attempt(() => {
        const wire = bundleToWire(parseDisplay(input).data);
        bundleFromWire(JSON.parse(JSON.stringify(wire)));
      }),
  };
}

async function rpc(): Promise<Target> {
  const { LineDecoder } = await import('../../src/protocol/rpc/lines.ts');
  const { parseMessage } = await import('../../src/protocol/rpc/message.ts');
  return {
    name: 'rpc',
    parser: [{ file: 'protocol/rpc/lines.ts' }, { file: 'protocol/rpc/message.ts' }],
    words: [
      '"id":1',
      '"id":null',
      '"method":"x"',
      '"result":1',
      '"error":{"code":1,"message":""}',
      '\n',
      '{',
      '}',
      ',',
      '\xff',
    ],
    take: (input) => {
      const decoder = new LineDecoder(200);
      const cut = input.length >> 1;
      for (const chunk of [input.subarray(0, cut), input.subarray(cut)]) {
        for (const line of decoder.push(chunk)) if (line.kind === 'line') parseMessage(line.bytes);
      }
      if (decoder.heldBytes > 200) throw new Error('a line that is held although it is too long');
      const rest = decoder.end();
      if (rest?.kind === 'line') parseMessage(rest.bytes);
    },
  };
}

const SCANNED = { mostDeep: 20, mostKeys: 20, mostEffort: 300 };

async function websocket(): Promise<Target> {
  const { isLight, lightJsonOf } = await import('../../src/protocol/light-json.ts');
  const { JsonScan } = await import('../../src/protocol/json-scan.ts');
  const { ClientFrame, FrameId } = await import('../../src/protocol/http/frames.ts');
  return {
    name: 'websocket',
    parser: [
      { file: 'protocol/json-scan.ts' },
      { file: 'protocol/light-json.ts' },
      { file: 'protocol/http/frames.ts' },
    ],
    words: [
      '"type":"ping"',
      '"id":1',
      '"code":"1"',
      '\\u00e9',
      '\\n',
      '-1.5e+3',
      'true',
      'null',
      '0',
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      '"',
    ],
    take: (input) => {
      const text = input.toString();
      // Once as bodies are looked through, and once as the gateway follows an answer.
      const follower = {
        ...{ mostKept: 8, wantsKeys: true, begin: (kind: string) => kind === 'text', close: () => {} },
        key: (json: string) => json.length <= 8 && !json.includes('bad'),
        text: (json: string) => json.length <= 8,
      };
      for (const scan of [new JsonScan(SCANNED), new JsonScan(SCANNED, follower)]) {
        scan.push(input.subarray(0, input.length >> 1));
        scan.push(input.subarray(input.length >> 1));
        if (scan.effort < 0) throw new Error('an effort that is none');
        if (scan.end() && !scan.isTooMuch && scan.isObject) JSON.parse(input.toString('latin1'));
      }
      isLight(input.length % 64 === 63 ? Buffer.concat(Array(80).fill(Buffer.alloc(1024, input))) : input);
      const frame = lightJsonOf(text);
      ClientFrame.safeParse(frame);
      FrameId.safeParse(frame);
    },
  };
}

async function proxy(): Promise<Target> {
  const { otherHost, readPassage } = await import('../../src/sandbox/proxy/forward.ts');
  const { ambiguity, passedOn } = await import('../../src/sandbox/proxy/headers.ts');
  const { readAllowed, readTarget, writeAllowed } = await import('../../src/protocol/network-hosts.ts');
  return {
    name: 'proxy',
    parser: [
      { file: 'sandbox/proxy/headers.ts' },
      { file: 'sandbox/proxy/forward.ts', functions: ['readPassage', 'otherHost'] },
      { file: 'protocol/network-hosts.ts' },
    ],
    words: [
      'Host: a.b',
      'Connection: host',
      'Content-Length: 1',
      'Transfer-Encoding: chunked',
      '\r\n',
      ':80',
      '[::1]',
      '*.',
      '127.0.0.1',
      '%',
      '@',
      'é',
    ],
    take: (input) => {
      const request = requestOf(input.toString('latin1'));
      const target = readTarget(request.url ?? '');
      if (target) otherHost(request, target, target.port);
      const passage = readPassage(request);
      if (typeof passage !== 'string' && /[\s/@]/.test(passage.authority))
        throw new Error(`an authority that is none: ${passage.authority}`);
      ambiguity(request);
      passedOn(request);
      const allowed = readAllowed(request.url ?? '');
      if (allowed && JSON.stringify(readAllowed(writeAllowed(allowed))) !== JSON.stringify(allowed))
        throw new Error('an entry that changes');
    },
  };
}

/** As Node's own parser gives it to the proxy, from what could be a request. */
function requestOf(text: string): IncomingMessage {
  const [first = '', ...lines] = text.split('\r\n');
  const rawHeaders: string[] = [];
  const headersDistinct: Record<string, string[]> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    rawHeaders.push(name, value);
    const all = headersDistinct[name.toLowerCase()];
    if (Array.isArray(all)) all.push(value);
    else
      Object.defineProperty(headersDistinct, name.toLowerCase(), {
        value: [value],
        enumerable: true,
        configurable: true,
      });
  }
  const headers = { host: headersDistinct.host?.[0] };
  return { url: first.split(' ')[1] ?? first, rawHeaders, headersDistinct, headers } as unknown as IncomingMessage;
}

async function tools(): Promise<Target> {
  const { CellaError } = await import('../../src/protocol/errors.ts');
  const { parseTool } = await import('../../src/namespaces/tools/parse.ts');
  return {
    name: 'tools',
    parser: [{ file: 'namespaces/tools/parse.ts' }],
    words: [
      'type: http\n',
      'type: mcp\n',
      '&a ',
      '*a',
      '- ',
      ': ',
      '{',
      '}',
      '[',
      '!!binary ',
      '|\n',
      '"',
      '? ',
      '<<: ',
    ],
    take: (input) => {
      try {
        parseTool(input.toString(), 'fuzzed');
      } catch (error) {
        if (!(error instanceof CellaError) || error.code !== 'TOOL_INVALID') throw error;
      }
    },
  };
}

export const targets: Readonly<Record<string, () => Promise<Target>>> = {
  frames,
  parts,
  values,
  mime,
  rpc,
  websocket,
  proxy,
  tools,
};
