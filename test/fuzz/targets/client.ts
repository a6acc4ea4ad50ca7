/** What a client sends. */

import type { IncomingMessage } from 'node:http';
import type { Route as ApiRoute } from '../../../src/protocol/api/route.ts';
import type { RequestContext } from '../../../src/server/http/server-context.ts';
import type { ByteReservation } from '../../../src/server/request-limits.ts';
import type { Target } from '../engine.ts';
import { headAndBody, requestOf } from './requests.ts';

/** What is large is looked through in steps: one input of so many is made large. */
const SELDOM = 64;
const inflated = (bytes: Buffer): Buffer =>
  bytes.length === 0 ? bytes : Buffer.concat([bytes, Buffer.alloc(150 * 1024, bytes)]);
const SCANNED = { mostDeep: 20, mostKeys: 20, mostEffort: 300 };

export async function websocket(): Promise<Target> {
  const { isCheapToParse: isLight, parseCheapJson: lightJsonOf } = await import('../../../src/lib/json-scanner.ts');
  const { JsonScanner } = await import('../../../src/lib/json-scanner.ts');
  const { ClientFrame, FrameId } = await import('../../../src/protocol/api/socket-frames.ts');
  return {
    name: 'websocket',
    parser: [
      {
        file: 'lib/json-scanner.ts',
        functions: [
          'JsonScanner',
          'push',
          'isTooMuch',
          'effort',
          'isObject',
          'end',
          '#next',
          '#between',
          '#begin',
          '#beginKey',
          '#string',
          '#wantedHere',
          '#keep',
          '#reportText',
          '#inString',
          '#endString',
          '#open',
          '#close',
          '#endValue',
          '#inNumber',
          '#tooMuch',
          '#exceeds',
          'effortOf',
          'kindOf',
          'endOfPlain',
          'afterDigit',
          'isDigit',
          'isHex',
          'isBlank',
        ],
      },
      {
        file: 'lib/json-scanner.ts',
        functions: ['isCheapToParse', 'scanInSteps', 'isByteOrderMark', 'parseCheapJson', 'tryParseJson'],
      },
      { file: 'protocol/api/socket-frames.ts' },
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
      for (const scan of [new JsonScanner(SCANNED), new JsonScanner(SCANNED, follower)]) {
        scan.push(input.subarray(0, input.length >> 1));
        scan.push(input.subarray(input.length >> 1));
        if (scan.effort < 0) throw new Error('an effort that is none');
        if (scan.end() && !scan.isTooMuch && scan.isObject) JSON.parse(input.toString('latin1'));
      }
      isLight(input.length % SELDOM === SELDOM - 1 ? inflated(input) : input);
      const frame = lightJsonOf(text);
      ClientFrame.safeParse(frame);
      FrameId.safeParse(frame);
    },
  };
}

/** Requests of clients for every endpoint: their addresses, heads and bodies. Paths and patterns of files are read too. */
export async function bodies(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { hostProblem, originProblem } = await import('../../../src/server/http/app.ts');
  const { readRequest: partsOf } = await import('../../../src/server/http/router.ts');
  const { parseSessionToken } = await import('../../../src/server/access/secrets.ts');
  const { parseToken } = await import('../../../src/server/access/secrets.ts');
  const { ForwardSigner } = await import('../../../src/server/cluster/forward-signer.ts');
  const { Glob } = await import('../../../src/environments/files/glob.ts');
  const files = await import('../../../src/environments/files/file-paths.ts');
  const { readJson } = await import('../../../src/server/http/bodies.ts');
  const { checkMessage, readMessage } = await import('../../../src/server/mcp-endpoints.ts');
  const { TerminalClientFrame } = await import('../../../src/protocol/api/socket-frames.ts');
  const routes = await endpoints();
  const signer = new ForwardSigner('secret');
  const hold = { add: () => {}, resize: () => {}, [Symbol.dispose]: () => {} };
  const room = () => hold as unknown as ByteReservation;

  return {
    name: 'bodies',
    parser: [
      { file: 'server/http/app.ts', functions: ['hostProblem', 'originProblem', 'nameOf'] },
      {
        file: 'server/http/router.ts',
        functions: ['readRequest', 'withFewNames', 'check', 'parsePart', 'queryOf'],
      },
      {
        file: 'server/http/bodies.ts',
        functions: ['readBytes', 'readJson', 'whileThere', 'tooLarge', 'checkCheapToParse'],
      },
      { file: 'server/mcp-endpoints.ts', functions: ['checkMessage', 'readMessage'] },
      { file: 'server/access/secrets.ts', functions: ['parse', 'parseToken', 'parseSessionToken'] },
      { file: 'server/cluster/forward-signer.ts' },
      { file: 'environments/files/glob.ts' },
      { file: 'environments/files/file-paths.ts', functions: ['partsOf', 'invalidPath'] },
    ],
    words: [
      ...[
        '\xef\xbb\xbf',
        '"',
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        'null',
        '1e999',
        '-1',
        '"__proto__":',
        '\\ud800',
        '\xff',
        '%00',
        '../',
        '**',
        '{a,b',
      ],
      ...[
        '?path=',
        '&pattern=',
        '&a=1&a=2',
        '/v1/sessions',
        'Origin: http://a\r\n',
        'Transfer-Encoding: chunked\r\n',
        '\r\n\r\n',
      ],
    ],
    take: async (input) => {
      const { head, body: sent } = headAndBody(input);
      const request = requestOf(head);
      const isLarge = input.length % SELDOM === 0;
      const body = isLarge ? inflated(sent) : sent;
      const rules = { limitBytes: isLarge ? 2 * 1024 * 1024 : 12_000, room };
      const { host, origin, authorization = '' } = request.headers;
      for (const loopback of [true, false]) hostProblem(host, { loopback, names: ['cella.example.org'] });
      originProblem(origin, host);
      parseToken(authorization.slice(7));
      parseSessionToken(authorization.slice(7));
      const [path = '', query = ''] = (request.url ?? '').split('?');
      const marked = { method: 'GET', path, authorization };
      const hop = String(request.headers['x-cella-hop'] ?? '');
      // As a friend would have signed it, where it asks for that: what is signed is read too.
      signer.read(
        marked,
        hop === 'signed' ? signer.sign(marked, { from: path.slice(0, 200), client: query.slice(0, 100) }) : hop,
      );
      const context = contextOf(request, { path, query, body });
      try {
        const json = tryJson(sent);
        TerminalClientFrame.safeParse(json);
        for (const params of [json, { _meta: body.toString() }]) {
          for (const id of [1, sent.toString()]) refusalOf(() => checkMessage({ method: 'ping', id, params }));
        }
        checkMessage(json);
        if (isLarge) {
          const asked = () => new Request('http://a/mcp', { method: 'POST', body: Uint8Array.from(body) });
          await readJson(asked(), rules.limitBytes, room());
          await readMessage(asked(), room());
        }
        const found = routes.find(({ method, shape }) => method === request.method && shape.test(path));
        if (found) {
          context.named = found.shape.exec(path)?.groups ?? {};
          await partsOf(found.endpoint, context.c, rules);
        }
        const [folder, pattern] = [context.queries.path?.[0] ?? '', context.queries.pattern?.[0] ?? ''];
        const parts = files.partsOf(folder);
        if (parts.some((part) => part === '..' || part === '' || part.includes('/'))) throw new Error('a way out');
        const glob = new Glob(pattern);
        glob.matches(folder);
        glob.reaches(folder);
      } catch (error) {
        if (!(error instanceof CellaError)) throw error;
      }
    },
  };
}

/** Other errors are thrown. */
function refusalOf(check: () => void): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof Error && error.name === 'CellaError') return error.message;
    throw error;
  }
}

function tryJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined; // most are none
  }
}

interface Route {
  readonly method: string;
  readonly shape: RegExp;
  readonly endpoint: ApiRoute;
}

async function endpoints(): Promise<Route[]> {
  const { routes } = await import('../../../src/protocol/api/routes.ts');
  return Object.values(routes).map((endpoint) => {
    const pattern = endpoint.path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)');
    return { method: endpoint.method, shape: new RegExp(`^${pattern}$`), endpoint };
  });
}

/** As much of a request's context as is read of it. */
function contextOf(
  request: IncomingMessage,
  { query, body }: { readonly path: string; readonly query: string; readonly body: Buffer },
) {
  const queries: Record<string, string[]> = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const all = Object.hasOwn(queries, name) ? queries[name] : undefined;
    if (all) all.push(value);
    else Object.defineProperty(queries, name, { value: [value], enumerable: true, configurable: true });
  }
  const header = (name: string) => request.headers[name.toLowerCase()] as string | undefined;
  const raw = {
    headers: { get: (name: string) => header(name) ?? null, has: (name: string) => header(name) !== undefined },
    arrayBuffer: async () => Uint8Array.from(body).buffer,
    body: body.length === 0 ? null : [body.subarray(0, body.length >> 1), body.subarray(body.length >> 1)],
  };
  const context = {
    queries,
    named: {} as Record<string, string>,
    c: {
      req: { raw, method: request.method, header, queries: () => queries, param: () => context.named },
    } as unknown as RequestContext,
  };
  return context;
}
