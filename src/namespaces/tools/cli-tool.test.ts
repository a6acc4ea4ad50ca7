import { describe, expect, it } from 'vitest';
import { temporaryFolder, testTools } from '../../../test/support/namespaces/tools.ts';

/** Shows its argument list, one in a line. */
const show = `
name: show
description: Shows what it is given.
command: [printf, '<%s>\\n']
schema:
  options:
    ignore_case: {type: boolean, short: i}
    max_count: {type: integer, default: 5}
    include: {type: array}
    kinds: {type: array, separator: ',', flag: --kinds=}
    level: {type: string, enum: [low, high]}
    ratio: {type: number, allow_dash: true}
  positional:
    - {name: pattern, type: string, required: true}
    - {name: paths, type: string, variadic: true}
recipes:
  loud: {description: Ignores case., preset: {ignore_case: true, max_count: 1}}
  only: {preset: {level: low}, params: {pattern: {description: what to look for}}}
`;

const tool = (name: string, command: string, more = '') =>
  `name: ${name}\ncommand: ${JSON.stringify(command.split(' '))}\n${more}`;
const shell = (name: string, script: string, more = '') =>
  `name: ${name}\ncommand: ${JSON.stringify(['sh', '-c', script])}\n${more}`;

describe('the arguments of a program', () => {
  const shown = async (callee: string, named = {}, positional: string[] = []) => {
    await using tools = await testTools([show]);
    return String(await tools.call(callee, named, { positional }))
      .trim()
      .split('\n')
      .map((line) => line.slice(1, -1));
  };

  it('are options in the order of the schema, then positionals in order', async () => {
    const named = { paths: ['a b', '$(id)'], include: ['x', 'y'], kinds: ['p', 'q'], pattern: 'w', ignore_case: true };
    expect(await shown('show', named)).toEqual([
      '-i',
      '--max-count',
      '5',
      '--include',
      'x',
      '--include',
      'y',
      '--kinds=p,q',
      'w',
      'a b',
      '$(id)',
    ]);
  });

  it('can be given by position, and the last position can take many', async () => {
    expect(await shown('show', { max_count: null }, ['w', 'a', 'b'])).toEqual(['w', 'a', 'b']);
    expect(await shown('show', { max_count: null, ignore_case: false }, ['w'])).toEqual(['w']);
  });

  it('come from a recipe if the caller gives no others', async () => {
    expect(await shown('show.loud', {}, ['w'])).toEqual(['-i', '--max-count', '1', 'w']);
    expect(await shown('show.loud', { max_count: 9, ignore_case: false }, ['w'])).toEqual(['--max-count', '9', 'w']);
    expect(await shown('show.only', {}, ['w'])).toEqual(['--max-count', '5', '--level', 'low', 'w']);
  });

  it.each([
    [
      'an unknown one',
      { pattern: 'w', patern: 'x' },
      /no argument "patern"\. It takes pattern, paths, ignore_case, max_count/,
    ],
    [
      'one that the recipe does not take',
      { pattern: 'w', max_count: 1 },
      /no argument "max_count"\. It takes pattern, level\./,
      'show.only',
    ],
    ['a missing one', {}, /needs pattern/],
    ['text for a number', { pattern: 'w', max_count: '5' }, /wrong max_count: it must be a whole number/],
    ['a fraction for a whole number', { pattern: 'w', max_count: 1.5 }, /must be a whole number, and is 1.5/],
    ['a truth value for a number', { pattern: 'w', max_count: true }, /must be a whole number, and is True/],
    ['a number for text', { pattern: 5 }, /wrong pattern: it must be text/],
    ['text for a list', { pattern: 'w', include: 'x' }, /wrong include: it must be a list/],
    ['a list with something else in it', { pattern: 'w', include: ['x', 1] }, /must be text, and is 1 \(item 1\)/],
    ['one that is not among the choices', { pattern: 'w', level: 'mid' }, /must be one of "low", "high"/],
    ['one that begins with a dash', { pattern: '--help' }, /wrong pattern: it begins with a dash/],
    ['an item that begins with a dash', { pattern: 'w', paths: ['a', '-rf'] }, /wrong paths: it begins with a dash/],
    ['a negative number', { pattern: 'w', max_count: -1 }, /wrong max_count: it begins with a dash/],
    ['an item with the separator in it', { pattern: 'w', kinds: ['a,b'] }, /contains ",", which separates items/],
    ['a NUL', { pattern: 'a\0b' }, /it holds a NUL/],
    ['a lone surrogate', { pattern: 'a\ud800' }, /not valid text/],
    ['infinity', { pattern: 'w', ratio: Number.POSITIVE_INFINITY }, /must be a number/],
    ['bytes', { pattern: new Uint8Array(1) }, /must be text, and is bytes/],
    ['a name that is none', JSON.parse('{"pattern": "w", "__proto__": 1}'), /no argument "__proto__"/],
    ['a name that objects have', { pattern: 'w', constructor: 'x' }, /no argument/],
  ])('are refused before anything runs: %s', async (_name, named, message, callee = 'show') => {
    await using tools = await testTools([show]);
    await expect(tools.call(callee, named)).rejects.toMatchObject({
      code: 'TOOL_ARGUMENTS',
      message: expect.stringMatching(message),
    });
    expect([...tools.sandboxed.commands, ...tools.host.commands]).toEqual([]);
  });

  it('are refused if there are too many by position, or one twice', async () => {
    await using tools = await testTools([tool('two', 'echo', 'schema: {positional: [{name: a}, {name: b}]}')]);
    await expect(tools.call('two', {}, { positional: ['1', '2', '3'] })).rejects.toThrow(
      /takes 2 arguments by position, but got 3/,
    );
    await expect(tools.call('two', { a: '1' }, { positional: ['1'] })).rejects.toThrow(/got a twice/);
    await expect(tools.call('two', { b: '1' })).rejects.toThrow(/needs a where b is given/);
  });

  it('can begin with a dash if the definition allows it', async () => {
    const dashes = 'schema: {positional: [{name: text, allow_dash: true}]}';
    const ended = 'end_of_options: true\nschema: {positional: [{name: text}]}';
    await using tools = await testTools([tool('free', 'echo', dashes), tool('ended', 'printf %s,', ended)]);
    expect(await tools.call('free', { text: '--x' })).toBe('--x\n');
    expect(await tools.call('ended', { text: '-x' })).toBe('--,-x,');
    await using negative = await testTools([show]);
    expect(await negative.call('show', { pattern: 'w', max_count: null, ratio: -0.5 })).toBe(
      '<--ratio>\n<-0.5>\n<w>\n',
    );
  });

  it('never reach a shell, even if the command is one text', async () => {
    await using tools = await testTools([
      'name: plain\ncommand: echo $HOME `id` ; ls\nschema: {positional: [{name: text}]}',
    ]);
    expect(await tools.call('plain', { text: '; id; $(id) `id` | id > /tmp/x' })).toBe(
      '$HOME `id` ; ls ; id; $(id) `id` | id > /tmp/x\n',
    );
  });
});

describe('a program', { timeout: 30_000 }, () => {
  it('runs in the sandbox, and on the host only if its definition says so', async () => {
    await using tools = await testTools([tool('inside', 'true'), tool('outside', 'true', 'runs_on: host')]);
    await tools.call('inside');
    expect([tools.sandboxed.commands.length, tools.host.commands.length]).toEqual([1, 0]);
    await tools.call('outside');
    expect([tools.sandboxed.commands.length, tools.host.commands.length]).toEqual([1, 1]);
  });

  it('returns text, JSON with integers of any length, or lines', async () => {
    const json = '{"n": 12345678901234567890, "list": [1, 1.5, null]}';
    await using tools = await testTools([
      tool('text', 'echo grüße'),
      shell('json', `echo '${json}'`, 'result: json'),
      shell('lines', 'printf "a\\nb\\n"', 'result: lines'),
      tool('broken', 'echo {', 'result: json'),
    ]);
    expect(await tools.call('text')).toBe('grüße\n');
    expect(await tools.call('json')).toEqual({ n: 12345678901234567890n, list: [1, 1.5, null] });
    expect(await tools.call('lines')).toEqual(['a', 'b']);
    await expect(tools.call('broken')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringContaining('is not usable JSON'),
    });
  });

  it('has failed if its exit code is not in its definition', async () => {
    await using tools = await testTools([
      shell('fails', 'echo partly; echo "no such thing" >&2; exit 3'),
      shell('one', 'exit 1', 'success_codes: [0, 1]'),
      shell('dies', 'kill -SEGV $$'),
    ]);
    await expect(tools.call('fails')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: 'tools.fails ended with exit code 3. It said: no such thing',
      details: { exitCode: 3, stderr: 'no such thing\n' },
    });
    expect(await tools.call('one')).toBe('');
    await expect(tools.call('dies')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: 'tools.dies was killed by SIGSEGV.',
    });
  });

  it('that is missing is an error with its name', async () => {
    await using tools = await testTools([tool('gone', 'no-such-program-here')]);
    await expect(tools.call('gone')).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringContaining('"no-such-program-here" could not be started: the program does not exist'),
    });
  });

  it('that hangs is ended at its timeout, with its output', async () => {
    await using tools = await testTools([shell('hangs', 'echo waiting >&2; sleep 1000', 'timeout: 0.3')]);
    await expect(tools.call('hangs')).rejects.toMatchObject({
      code: 'TOOL_TIMEOUT',
      message: expect.stringMatching(/did not end within 0.3 s .* It said: waiting/),
    });
  });

  it('that prints too much is truncated, and says by how much', async () => {
    await using tools = await testTools([
      shell('floods', 'head -c 3000000 /dev/zero | tr "\\0" x', 'output_limit: 1000'),
      shell('json', 'head -c 3000000 /dev/zero | tr "\\0" 1', 'output_limit: 1000\nresult: json'),
    ]);
    const text = String(await tools.call('floods'));
    expect(text).toBe(
      `${'x'.repeat(1000)}\n[2999000 more bytes are missing: the tool wrote more than its output_limit]`,
    );
    await expect(tools.call('json')).rejects.toThrow(/more JSON than the 1000 bytes/);
    await using narrow = await testTools([tool('umlauts', 'echo äöü', 'output_limit: 3')]);
    expect(await narrow.call('umlauts')).toMatch(/^ä\n\[4 more bytes are missing/);
  });

  it('runs concurrently with others', async () => {
    // Each waits for all: one after the other, they would wait for ever.
    const script = 'echo $$ > "$0/$$"; while [ "$(ls "$0" | wc -l)" -lt 8 ]; do sleep 0.01; done; echo met';
    const yaml = `name: meets\ncommand: ${JSON.stringify(['sh', '-c', script])}\ntimeout: 20\nschema: {positional: [{name: folder}]}`;
    await using tools = await testTools([yaml]);
    using folder = temporaryFolder();
    const calls = Array.from({ length: 8 }, () => tools.call('meets', { folder: folder.path }));
    expect(await Promise.all(calls)).toEqual(Array(8).fill('met\n'));
  });

  it('is ended if the code no longer waits for it', async () => {
    await using tools = await testTools([shell('long', 'sleep 1000')]);
    const stop = new AbortController();
    const call = tools.call('long', {}, { context: { signal: stop.signal } });
    const failed = expect(call).rejects.toMatchObject({ code: 'ABORTED' });
    stop.abort();
    await failed;
    await expect(tools.call('long', {}, { context: { signal: stop.signal } })).rejects.toMatchObject({
      code: 'ABORTED',
    });
    expect(tools.sandboxed.commands.length).toBeLessThanOrEqual(1);
  });

  it('gets credentials by name on the host, and never in the sandbox', async () => {
    const env = 'env: {TOKEN: {credential: token}, MODE: plain}';
    const credentials = async (name: string) => (name === 'token' ? 's3cret' : undefined);
    await using tools = await testTools(
      [
        shell('knows', '[ "$TOKEN" = s3cret ] && echo yes $TOKEN $MODE', `runs_on: host\n${env}`),
        shell('leaks', 'env', env),
        shell('lacks', 'env', 'runs_on: host\nenv: {A: {credential: b}}'),
      ],
      { credentials },
    );
    expect(await tools.call('knows')).toBe('yes [credential] plain\n');
    await expect(tools.call('leaks')).rejects.toMatchObject({ code: 'TOOL_INVALID' });
    await expect(tools.call('lacks')).rejects.toMatchObject({
      code: 'CREDENTIAL_MISSING',
      details: { credential: 'b' },
    });
  });
});
