import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MemoryTexts, temporaryFolder, testTools } from '../../../test/support/namespaces/tools.ts';
import { parseTool } from './parse-tool.ts';
import { Tools } from './tools-namespace.ts';

const good = 'name: good\ndescription: Works.\ncommand: echo fine\n';
const unused = { run: () => Promise.reject(new Error('nothing is to run')) };

describe('an invalid definition', () => {
  it.each([
    ['is no YAML', 'name: bad\ncommand: [echo\ntags: {\n', 3],
    ['has a tab for indentation', 'name: bad\nschema:\n\toptions: 1\n', 3],
    ['names a key twice', 'name: bad\ncommand: echo\nname: again\n', 3],
    ['is a list', '- name: bad\n', 1],
    ['is empty', '', 1],
    ['has several documents', 'name: bad\ncommand: echo\n---\nname: other\n', 3],
    ['has no command', 'name: bad\n', 1],
    ['has no name', 'command: echo\n', 1],
    ['has a name that code cannot write', 'description: x\nname: not-a-name\ncommand: echo\n', 2],
    ['has the name of a method', 'name: list\ncommand: echo\n', 1],
    ['has a field that is not known', 'name: bad\ncommand: echo\ntimout: 5\n', 3],
    ['has a timeout that is text', 'name: bad\ncommand: echo\ntimeout: soon\n', 3],
    ['has a negative timeout', 'name: bad\ncommand: echo\ntimeout: -1\n', 3],
    ['has a command with nothing in it', 'name: bad\ncommand: ""\n', 2],
    ['has a type of which there is none', 'name: bad\ntype: ftp\n', 2],
    [
      'has an option of an unknown type',
      'name: bad\ncommand: echo\nschema:\n  options:\n    x:\n      type: text\n',
      6,
    ],
    ['has an option that is a word of Python', 'name: bad\ncommand: echo\nschema:\n  options:\n    from: {}\n', 5],
    ['has an option that is a list', 'name: bad\ncommand: echo\nschema:\n  options:\n    x: []\n', 5],
    ['has a flag without a dash', 'name: bad\ncommand: echo\nschema:\n  options:\n    x: {flag: rm}\n', 5],
    [
      'has a default of the wrong type',
      'name: bad\ncommand: echo\nschema:\n  options:\n    x: {type: integer, default: y}\n',
      5,
    ],
    [
      'has a choice of the wrong type',
      'name: bad\ncommand: echo\nschema:\n  options:\n    x: {type: integer, enum: [1, y]}\n',
      5,
    ],
    [
      'has a preset of the wrong type',
      'name: bad\ncommand: echo\nschema: {options: {x: {type: integer}}}\nrecipes:\n  r:\n    preset:\n      x: [1]\n',
      7,
    ],
    [
      'has two arguments of one name',
      'name: bad\ncommand: echo\nschema:\n  options: {x: {}}\n  positional: [{name: x}]\n',
      5,
    ],
    [
      'has a required positional after an optional one',
      'name: bad\ncommand: echo\nschema:\n  positional:\n    - {name: a}\n    - {name: b, required: true}\n',
      6,
    ],
    [
      'has a variadic positional that is not the last',
      'name: bad\ncommand: echo\nschema:\n  positional:\n    - {name: a, variadic: true}\n    - {name: b}\n',
      5,
    ],
    ['has a recipe with an unknown preset', 'name: bad\ncommand: echo\nrecipes:\n  r:\n    preset: {x: 1}\n', 5],
    [
      'has a recipe that leaves out what is required',
      'name: bad\ncommand: echo\nschema: {positional: [{name: a, required: true}]}\nrecipes:\n  r:\n    params: {}\n',
      6,
    ],
    ['is an MCP server in the sandbox', 'name: bad\ntype: mcp\ncommand: server\n', 3],
    [
      'is an MCP server with a program and a URL',
      'name: bad\ntype: mcp\nruns_on: host\ncommand: x\nurl: http://localhost/\n',
      1,
    ],
    ['is an MCP server with neither', 'name: bad\ntype: mcp\n', 1],
    [
      'has a value in the host of its URL',
      'name: bad\ntype: http\nurl: https://{host}/x\nparameters: {host: {required: true}}\n',
      3,
    ],
    ['has a URL of another scheme', 'name: bad\ntype: http\nurl: file:///etc/passwd\n', 3],
    ['has a password in its URL', 'name: bad\ntype: http\nurl: https://me:secret@example.org/\n', 3],
    ['asks for an argument that is not there', 'name: bad\ntype: http\nurl: https://example.org/{id}\n', 3],
    [
      'has an argument that is used nowhere',
      'name: bad\ntype: http\nurl: https://example.org/\nparameters:\n  id: {}\n',
      5,
    ],
    [
      'has a header with a line break',
      'name: bad\ntype: http\nurl: https://example.org/\nheaders:\n  x: "a\\r\\nb: c"\n',
      5,
    ],
    ['has a body in a GET', 'name: bad\ntype: http\nurl: https://example.org/\nbody: {}\n', 4],
  ])('is reported with its file and line, and the others still load: it %s', async (_name, yaml, line) => {
    using folder = temporaryFolder();
    const path = join(folder.path, 'bad.yaml');
    writeFileSync(path, yaml);
    writeFileSync(join(folder.path, 'good.yaml'), good);
    await using tools = await testTools([], { folders: [folder.path] });
    expect((await tools.tools.list()).map(({ name }) => name)).toEqual(['good']);
    expect(await tools.call('good')).toBe('fine\n');
    const message = expect.stringContaining(`${path}:${line} cannot be used:`);
    expect(await tools.tools.problems()).toEqual([{ where: path, line, name: 'bad', message }]);
    await expect(tools.call('bad')).rejects.toMatchObject({
      code: 'TOOL_INVALID',
      message,
      details: { where: path, line },
    });
  });

  it('can be an alias bomb', async () => {
    const aliases = ['a: &a [x,x,x,x,x,x,x,x,x]'];
    for (let at = 1; at < 12; at++) {
      const [name, before] = ['abcdefghijkl'[at], 'abcdefghijkl'[at - 1]];
      aliases.push(`${name}: &${name} [${Array(9).fill(`*${before}`).join(',')}]`);
    }
    await using tools = await testTools([
      good,
      `name: aliases\n${aliases.join('\n')}\n`,
      `name: deep\ncommand: ${'['.repeat(100_000)}\n`,
      `name: long\ncommand: echo\ndescription: ${'x'.repeat(300_000)}\n`,
      'name: proto\ncommand: echo\n__proto__: {type: mcp}\n',
    ]);
    expect((await tools.tools.list()).map(({ name }) => name)).toEqual(['good']);
    expect((await tools.tools.problems()).map(({ name }) => name)).toEqual(['aliases', 'deep', 'long', 'proto']);
  });

  it('can be a missing file', async () => {
    using folder = temporaryFolder();
    mkdirSync(join(folder.path, 'folder.yaml'));
    symlinkSync('/dev/zero', join(folder.path, 'endless.yaml'));
    symlinkSync(join(folder.path, 'nowhere'), join(folder.path, 'dangling.yaml'));
    writeFileSync(join(folder.path, 'good.yml'), good);
    writeFileSync(join(folder.path, 'notes.txt'), 'not: [a tool');
    await using tools = await testTools([], { folders: [folder.path, join(folder.path, 'missing')] });
    expect((await tools.tools.list()).map(({ name }) => name)).toEqual(['good']);
    const problems = (await tools.tools.problems()).map(({ message }) => message);
    expect(problems).toEqual([
      expect.stringContaining('missing cannot be read'),
      expect.stringContaining('endless.yaml cannot be read: it is not a file'),
      expect.stringContaining('folder.yaml cannot be read: it is not a file'),
    ]);
  });
});

describe('the definitions in docs/tools.md', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/tools.md'), 'utf8');
  const yamls = [...page.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] ?? '');

  it('are all valid', () => {
    expect(yamls.map((yaml) => parseTool(yaml, 'docs/tools.md').type)).toEqual(['cli', 'mcp', 'mcp', 'http']);
  });

  it('find text as the page describes', async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, 'a.py'), 'TODO one\ntodo two\n');
    await using tools = await testTools(yamls.slice(0, 1));
    const [pattern, path] = ['TODO', join(folder.path, 'a.py')];
    expect(await tools.call('grep', { pattern, paths: [path] })).toBe('TODO one\n');
    expect(await tools.call('grep.count', {}, { positional: [pattern, path] })).toBe('1\n');
    expect(await tools.call('grep.everywhere', { pattern, paths: [folder.path], include: ['*.py'] })).toContain(
      'todo two',
    );
    expect(await tools.call('grep', { pattern: 'nothing', paths: [path] })).toBe('');
  });
});

describe('two definitions of one name', () => {
  it('are the first one, and a problem', async () => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, 'other.yaml'), 'name: good\ncommand: echo other\n');
    await using tools = await testTools([good], { folders: [folder.path] });
    expect(await tools.call('good')).toBe('fine\n');
    expect(await tools.tools.problems()).toMatchObject([
      { where: join(folder.path, 'other.yaml'), message: expect.stringContaining('memory/good.yaml has that name') },
    ]);
  });
});

describe('the tools', () => {
  it('are read once, and again after a change in the storage or in a folder', async () => {
    using folder = temporaryFolder();
    const path = join(folder.path, 'file.yaml');
    await using tools = await testTools([good], { folders: [folder.path] });
    await tools.call('good');
    await tools.call('good');
    expect(tools.store.reads).toBe(1);
    writeFileSync(path, 'name: file\ncommand: echo one\n');
    expect(await tools.call('file')).toBe('one\n');
    writeFileSync(path, 'name: file\ncommand: echo three\n');
    expect(await tools.call('file')).toBe('three\n');
    await expect(tools.tools.delete('file')).rejects.toMatchObject({
      code: 'TOOL_NOT_FOUND',
      message: expect.stringContaining('delete its file there'),
    });
    rmSync(path);
    await expect(tools.call('file')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await tools.store.put('good', 'name: good\ncommand: echo changed\n');
    expect(await tools.call('good')).toBe('changed\n');
  });

  it('are read again after the storage failed', async () => {
    const store = new MemoryTexts();
    await store.put('good', good);
    const tools = new Tools({ store, folders: [], sandboxed: unused, host: unused });
    const { list } = store;
    store.list = () => Promise.reject(new Error('away'));
    await expect(tools.list()).rejects.toThrow('away');
    store.list = list;
    expect((await tools.list()).map(({ name }) => name)).toEqual(['good']);
  });

  it('are created after a check, and deleted', async () => {
    await using tools = await testTools([]);
    await expect(tools.tools.create('name: x\ncommand: 5\n')).rejects.toMatchObject({
      code: 'TOOL_INVALID',
      details: { line: 2 },
    });
    expect(await tools.tools.create(good)).toMatchObject({ name: 'good', kind: 'cli', runs_on: 'sandbox' });
    await expect(tools.tools.create(good)).rejects.toMatchObject({ code: 'NAME_TAKEN' });
    await tools.tools.create('name: good\ncommand: echo replaced\n', { replace: true });
    expect(await tools.call('good')).toBe('replaced\n');
    await tools.tools.delete('good');
    await expect(tools.tools.delete('good')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await expect(tools.call('good')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
  });

  it('that are missing are reported with the existing ones', async () => {
    await using tools = await testTools([good]);
    await expect(tools.call('god')).rejects.toMatchObject({
      code: 'TOOL_NOT_FOUND',
      message: 'There is no tool "god". There are good.',
    });
    await expect(tools.call('good.best')).rejects.toMatchObject({
      code: 'TOOL_NOT_FOUND',
      message: 'tools.good has no recipe "best". It has none.',
    });
    await expect(tools.call('good.constructor')).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
    await expect(tools.ask('tools.describe', { name: '__proto__' })).rejects.toMatchObject({ code: 'TOOL_NOT_FOUND' });
  });

  it('describe their arguments', async () => {
    const yaml = `
name: grep
description: Finds text.
tags: [text]
command: grep
requires_approval: true
schema:
  options: {max_count: {type: integer, default: 5, description: At most.}, kind: {enum: [a, b]}}
  positional: [{name: pattern, required: true}, {name: paths, variadic: true}]
recipes:
  first: {description: The first., preset: {max_count: 1}, params: {pattern: {description: A word.}}}
`;
    await using tools = await testTools([yaml]);
    const none = { default: null, enum: null, variadic: false, description: '', required: false };
    const info = {
      name: 'grep',
      description: 'Finds text.',
      tags: ['text'],
      kind: 'cli',
      runs_on: 'sandbox',
      requires_approval: true,
      parameters: [
        { ...none, name: 'pattern', type: 'string', required: true, positional: true },
        { ...none, name: 'paths', type: 'array', positional: true, variadic: true },
        { ...none, name: 'max_count', type: 'integer', default: 5, description: 'At most.', positional: false },
        { ...none, name: 'kind', type: 'string', enum: ['a', 'b'], positional: false },
      ],
      recipes: [
        {
          name: 'first',
          description: 'The first.',
          parameters: [
            { ...none, name: 'pattern', type: 'string', required: true, description: 'A word.', positional: true },
            { ...none, name: 'max_count', type: 'integer', default: 1, description: 'At most.', positional: false },
          ],
        },
      ],
    };
    expect(await tools.ask('tools.list', {})).toEqual([info]);
    expect(await tools.ask('tools.describe', { name: 'grep' })).toEqual(info);
    expect(await tools.ask('tools.search', { query: 'text', limit: 5 })).toEqual([info]);
  });
});

describe('a search', () => {
  it('finds tools by name, tag, description, recipe and argument, the best first', async () => {
    await using tools = await testTools([
      'name: grep\ndescription: Searches files for a pattern.\ntags: [text]\ncommand: grep\n',
      'name: nmap\ndescription: Scans a network for open ports.\ntags: [security]\ncommand: nmap\nrecipes: {quick: {description: A fast look.}}\n',
      'name: convert\ndescription: Changes images.\ncommand: convert\nschema: {options: {resolution: {}}}\n',
    ]);
    const found = async (query: string, limit = 10) =>
      (await tools.tools.search(query, { limit })).map(({ name }) => name);
    expect(await found('scan network')).toEqual(['nmap']);
    expect(await found('SEARCH')).toEqual(['grep']);
    expect(await found('security')).toEqual(['nmap']);
    expect(await found('quick')).toEqual(['nmap']);
    expect(await found('resolution')).toEqual(['convert']);
    expect(await found('grep images')).toEqual(['grep', 'convert']);
    expect(await found('grep images', 1)).toEqual(['grep']);
    expect(await found('zzz')).toEqual([]);
    expect(await found('')).toHaveLength(3);
  });

  it('ranks by where a word is, then by how alike the words are', async () => {
    const recipes = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`r${at}`, {}]));
    const yaml = (tool: object) => JSON.stringify({ type: 'cli', command: 'x', ...tool });
    await using tools = await testTools([
      yaml({ name: 'e', schema: { options: { wanted: {} } } }),
      yaml({ name: 'd', description: 'It is wanted.' }),
      yaml({ name: 'c', recipes: { ...recipes(3000), some: { description: 'It is wanted.' } } }),
      yaml({ name: 'b', tags: ['wanted'] }),
      yaml({ name: 'b_too', tags: ['wanted'], description: 'It is wanted.' }),
      yaml({ name: 'wanted' }),
      yaml({ name: 'wanteds' }),
      yaml({ name: 'unwanted' }),
    ]);
    const found = (await tools.tools.search('wanted')).map(({ name }) => name);
    expect(found).toEqual(['wanted', 'wanteds', 'b_too', 'b', 'c', 'd', 'unwanted', 'e']);
  });

  it('with too many words is refused, for code', async () => {
    await using tools = await testTools(['name: grep\ndescription: Searches.\ncommand: grep\n']);
    const query = 'word '.repeat(100_000);
    await expect(tools.ask('tools.search', { query })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });
});
