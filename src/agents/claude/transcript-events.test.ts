import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fromNativePrompt, toNativePrompt } from './sdk-options.ts';
import { eventsOf, turnOfUuid, uuidOfTurn } from './transcript-events.ts';

const turns = fc
  .array(fc.constantFrom(...'0123456789abcdefghijklmnopqrstuvwxyz'), { minLength: 16, maxLength: 16 })
  .map((letters) => `trn_${letters.join('')}`);

test('every id of a turn can be decoded from its uuid', () => {
  fc.assert(
    fc.property(turns, (turn) => {
      const uuid = uuidOfTurn(turn);
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(turnOfUuid(uuid)).toBe(turn);
    }),
  );
});

test('a foreign uuid gives the id of a turn, and always the same', () => {
  fc.assert(
    fc.property(fc.oneof(fc.uuid(), fc.string()), (uuid) => {
      expect(turnOfUuid(uuid)).toMatch(/^trn_[0-9a-z]{16}$/);
      expect(turnOfUuid(uuid)).toBe(turnOfUuid(uuid));
    }),
  );
});

test.each(['/security-review', ' /review', '/greet now', '/', 'say /init', '\n/x', ''])(
  'a prompt comes back from a transcript as it was, and only commands of the profile are commands: %j',
  (prompt) => {
    const native = toNativePrompt(prompt, { commands: { greet: 'Say hello' } });
    expect(native.startsWith('/')).toBe(prompt === '/greet now');
    if (!native.startsWith('/')) expect(fromNativePrompt(native)).toBe(prompt);
  },
);

const line = (value: object) => `${JSON.stringify(value)}\n`;
const prompt = (content: string) => line({ type: 'user', uuid: 'u', message: { content } });
const said = (content: readonly unknown[], more = {}) =>
  line({ type: 'assistant', message: { id: 'm', content }, ...more });
const calls = (n: number) => [{ type: 'tool_use', id: `t${n}`, name: 'Agent', input: { prompt: `p${n}` } }];
const deep = (json: string) => `${'['.repeat(20_000)}${json}${']'.repeat(20_000)}`;

test.each<[string, string, number]>([
  [
    'subagents in subagents without end',
    prompt('go') +
      said(calls(0)) +
      Array.from(
        { length: 3000 },
        (_, n) =>
          line({ type: 'user', agentId: `a${n}`, message: { content: `p${n}` } }) +
          said(calls(n + 1), { agentId: `a${n}` }),
      ).join(''),
    3,
  ],
  ['as many blocks as fit', prompt('go') + said(Array(150_000).fill({ type: 'text', text: 'a' })), 300_002],
  [
    'a command whose words begin again and again',
    prompt(`<command-name>/c</command-name>${'<command-args>'.repeat(20_000)}`),
    2,
  ],
  ['a block of many levels', `${prompt('go')}${said(['here']).replace('"here"', deep('1'))}`, 2],
  [
    'a call of many levels',
    `${prompt('go')}${said([{ type: 'tool_use', id: 't', name: 'X', input: 'here' }]).replace('"here"', deep('1'))}`,
    3,
  ],
])('a transcript that code has written is read to its end: %s', (_what, transcript, least) => {
  const events = eventsOf(transcript);
  expect(events.length).toBeGreaterThanOrEqual(least);
  expect(events.at(-1)).toMatchObject({ type: 'turn_ended' });
});

test.each([
  ['<command-name>/profile:review</command-name><command-args>all of it</command-args>', '/review all of it'],
  ['<command-message>x</command-message><command-name>b</command-name>', '/b'],
  ['<command-name>b</command-name></command-args><command-args>', '/b'],
  [
    '<command-name>b</command-name><command-args>1</command-args><command-args>2</command-args>',
    '/b 1</command-args><command-args>2',
  ],
  ['no <command-name>b</command-name>', 'no <command-name>b</command-name>'],
])('the prompt of %j is %j', (native, expected) => {
  expect(eventsOf(prompt(native))[0]).toMatchObject({ type: 'turn_started', prompt: expected });
});
