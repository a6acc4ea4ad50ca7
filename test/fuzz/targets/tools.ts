/** Definitions of tools, and what programs and servers answer that are tools. */

import type { Target } from '../engine.ts';

export async function tools(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { parseTool } = await import('../../../src/namespaces/tools/parse-tool.ts');
  const { toolInfo, toPyValue } = await import('../../../src/namespaces/tools/tool-definition.ts');
  return {
    name: 'tools',
    parser: [
      { file: 'namespaces/tools/parse-tool.ts' },
      { file: 'namespaces/tools/tool-definition.ts' },
      {
        file: 'namespaces/tools/parameters.ts',
        functions: ['parametersOf', 'checkParameters', 'yamlPath', 'identifier', 'definedFields'],
      },
      { file: 'namespaces/tools/placeholders.ts', functions: ['placeholders', 'urlTemplateProblem'] },
    ],
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
        toPyValue(toolInfo(parseTool(input.toString(), 'fuzzed')));
      } catch (error) {
        if (!(error instanceof CellaError) || error.code !== 'TOOL_INVALID') throw error;
      }
    },
  };
}

const CLI = `
name: find
command: find
end_of_options: true
schema:
  options:
    depth: {type: integer, required: true}
    names: {type: array, separator: ","}
    kind: {flag: "--kind=", enum: [a, b]}
    all: {type: boolean, short: a}
  positional: [{name: where, required: true}, {name: more, variadic: true}]
`;
const HTTP = `
name: weather
type: http
method: POST
url: https://example.org/v1/{city}/now?day={day}
headers: {X-Note: "{note}"}
query: {tags: "{tags}", q: "x {note}"}
body: {city: "{city}", deep: [{note: "{note}"}, "{extra}"]}
parameters:
  city: {required: true}
  day: {type: integer, default: 1}
  note: {}
  tags: {type: array, items: string}
  extra: {type: any}
`;

/** What code gives to tools, and what their programs and servers answer. The first line says which of them it is. */
export async function calls(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { bindArguments: bind } = await import('../../../src/namespaces/tools/parameters.ts');
  const { buildArgv, shownCommand } = await import('../../../src/namespaces/tools/cli-tool.ts');
  const { prepareRequest, shownRequest } = await import('../../../src/namespaces/tools/http-tool.ts');
  const { responseValue } = await import('../../../src/namespaces/tools/http-tool.ts');
  const { parseToolJson } = await import('../../../src/namespaces/tools/tool-output.ts');
  const { readLines, readToolJson } = await import('../../../src/namespaces/tools/tool-output.ts');
  const { prepareMcp } = await import('../../../src/namespaces/tools/mcp-calls.ts');
  const { messagesOf } = await import('../../../src/namespaces/tools/mcp-limits.ts');
  const { mcpValue } = await import('../../../src/namespaces/tools/mcp-calls.ts');
  const { pythonName, schemaParameters } = await import('../../../src/namespaces/tools/mcp-calls.ts');
  const { parseTool } = await import('../../../src/namespaces/tools/parse-tool.ts');
  const { callSignature: callableOf } = await import('../../../src/namespaces/tools/parameters.ts');
  const { isCallToolResult, specTypeSchemas } = await import('@modelcontextprotocol/client');
  const [cli, http] = [parseTool(CLI, 'cli'), parseTool(HTTP, 'http')];
  const mcp = parseTool('name: m\ntype: mcp\nurl: https://example.org\noutput_limit: 300', 'mcp');
  if (cli.type !== 'cli' || http.type !== 'http' || mcp.type !== 'mcp') throw new Error('another kind of tool');
  const SECRETS = ['s3cr3t'];

  const givenIn = async (text: string) => {
    const { positional, named } = Object(await parseToolJson(text, 'It'));
    return { positional: Array.isArray(positional) ? positional : [], named: Object(named) };
  };
  const kinds: Readonly<Record<string, (text: string) => unknown>> = {
    argv: async (text) => {
      const argv = buildArgv('find', cli, bind('find', callableOf(cli), await givenIn(text)));
      shownCommand(argv);
      const places = argv.indexOf('--');
      const options = argv.slice(1, places < 0 ? undefined : places);
      const odd = options.find((word) => word.startsWith('-') && !/^(?:--depth|--names|--kind=.*|-a)$/s.test(word));
      if (odd !== undefined && !/^-\d/.test(odd)) throw new Error(`an option that nobody has: ${odd}`);
      if (argv.some((word) => word.includes('\0'))) throw new Error('a word with a NUL');
    },
    http: async (text) => {
      const request = await prepareRequest('weather', http, bind('weather', callableOf(http), await givenIn(text)));
      shownRequest(request, undefined);
      const { origin, pathname } = request.url;
      if (origin !== 'https://example.org' || !/^\/v1\/[^/]+\/now$/.test(pathname))
        throw new Error(`led to ${request.url}`);
      if (/[\r\n\0]/.test(Object.values(request.headers).join(''))) throw new Error('a header that is two');
    },
    schema: (text) => {
      const tool = specTypeSchemas.Tool['~standard'].validate(JSON.parse(text));
      if (tool instanceof Promise || tool.issues) return;
      const name = pythonName(tool.value.name);
      schemaParameters(tool.value.inputSchema);
      // Its title says what is called in its place.
      const called = tool.value.title === undefined ? name : tool.value.title || undefined;
      prepareMcp(mcp, new Map([[name, tool.value]]), called, { positional: ['a'], named: { b: 1, c: [{ d: null }] } });
    },
    result: async (text) => {
      const result: unknown = JSON.parse(text);
      if (!isCallToolResult(result)) return;
      const value = await mcpValue('m.x', mcp, result, SECRETS);
      if (typeof value === 'string' && value.includes('s3cr3t')) throw new Error('a secret that came back');
    },
    // In steps or at once: both take the same.
    json: async (text) => {
      const [slow, fast] = await Promise.allSettled([readToolJson(text), parseToolJson(text, 'It')]);
      if (slow.status !== fast.status) throw new Error(`one reads it, and the other does not: ${text}`);
      if (slow.status === 'rejected') throw slow.reason;
    },
    text: async (text) => {
      const lines = await readLines(text, 'It');
      if (lines.join('\n') !== text.replace(/\n$/, '')) throw new Error(`other lines: ${lines}`);
    },
    lines: async (text) => {
      for await (const message of messagesOf(inPieces(Buffer.from(text), 50))) JSON.stringify(message);
    },
    response: async (text) => {
      const [type = '', ...rest] = text.split('\n');
      const response = { headers: { get: () => type } } as unknown as Response;
      const bytes = Buffer.from(rest.join('\n'));
      await responseValue('weather', http, response, { bytes, cut: bytes.length % 5 === 0 }, SECRETS);
    },
  };
  return {
    name: 'calls',
    parser: [
      { file: 'namespaces/tools/parameters.ts', functions: ['bindArguments', 'receive', 'argumentError', 'shortened'] },
      {
        file: 'namespaces/tools/cli-tool.ts',
        functions: ['buildArgv', 'refuse', 'texts', 'optionArgv', 'flagOf', 'textProblem', 'shownCommand'],
      },
      {
        file: 'namespaces/tools/http-tool.ts',
        functions: ['prepareRequest', 'shownRequest', 'shownBody'],
      },
      { file: 'namespaces/tools/http-tool.ts', functions: ['responseValue', 'kindOf'] },
      {
        file: 'namespaces/tools/tool-output.ts',
        functions: ['parseToolJson', 'readLines', 'tooDeep', 'jsonProblem', 'decodeWhole'],
      },
      {
        file: 'namespaces/tools/tool-output.ts',
        functions: [
          'readToolJson',
          'numberOf',
          'step',
          '#begin',
          '#enter',
          '#ends',
          '#readName',
          '#keep',
          '#string',
          '#word',
          '#match',
          '#next',
          '#wrong',
        ],
      },
      { file: 'namespaces/tools/mcp-calls.ts', functions: ['prepareMcp', 'unlisted', 'noSuchTool'] },
      { file: 'namespaces/tools/mcp-limits.ts', functions: ['messagesOf', 'parsed'] },
      { file: 'namespaces/tools/mcp-calls.ts', functions: ['mcpValue', 'textOf', 'partValue', 'bounded', 'tooLarge'] },
      {
        file: 'namespaces/tools/mcp-calls.ts',
        functions: ['knownType', 'schemaParameters', 'takesMore', 'schemaProblem', 'pythonName'],
      },
      {
        file: 'namespaces/tools/parameters.ts',
        functions: ['valueProblem', 'itemsProblem', 'typeProblem', 'wanted', 'pythonType'],
      },
      {
        file: 'namespaces/tools/placeholders.ts',
        functions: ['placeholders', 'fillUrl', 'fill', 'fillText', 'fillJson', 'asText'],
      },
    ],
    words: [
      ...[
        '"positional":[',
        '"named":{',
        '"depth":1,',
        '"where":"-x"',
        '"city":"..",',
        '"note":"a\\r\\nb",',
        '"\\u0000"',
        '"../"',
      ],
      ...[
        'true',
        'null',
        '12345678901234567890',
        '1e999',
        '"\\ud800"',
        '[',
        ']',
        '{',
        '}',
        ',',
        '"type":"text",',
        '"$ref":"#"',
      ],
      ...['"properties":{', '"pattern":"(a+)+$",', '"enum":[', 's3cr3t', '\n', '%2e', '"isError":true,', '"text":"x"'],
    ],
    take: async (input) => {
      const end = input.indexOf(10);
      const kind = input.toString('latin1', 0, Math.max(0, end));
      const read = (Object.hasOwn(kinds, kind) && kinds[kind]) || kinds.argv;
      try {
        await read?.(input.toString('utf8', end + 1));
      } catch (error) {
        if (!(error instanceof CellaError) && !(error instanceof SyntaxError)) throw error;
      }
    },
  };
}

async function* inPieces(bytes: Buffer, length: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}
