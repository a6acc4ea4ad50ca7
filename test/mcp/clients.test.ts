/** `cella mcp` as clients see it, over both transports and in both revisions of the protocol. */

import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CallToolResult, isInputRequiredResult } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Connected, type Era, type HttpServer, McpHost, type Person, textOf } from './client.ts';

const host = new McpHost();
afterAll(() => host[Symbol.dispose]());

const tools = mkdtempSync(join(tmpdir(), 'cella-mcp-tools-'));
afterAll(() => rmSync(tools, { recursive: true, force: true }));
mkdirSync(tools, { recursive: true });
writeFileSync(
  join(tools, 'say.yaml'),
  `name: say
description: Repeats words on a line
tags: [text]
command: echo
requires_approval: true
schema:
  positional:
    - name: words
      type: string
      required: true
`,
);
writeFileSync(join(tools, 'broken.yaml'), 'name: [broken\n');
writeFileSync(
  join(tools, 'tally.yaml'),
  `name: tally
command: wc
schema:
  options:
    lines: { type: boolean, default: true }
  positional:
    - { name: files, variadic: true }
recipes:
  bytes: { preset: { lines: false } }
`,
);

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const kinds: [string, 'stdio' | 'http', Era][] = [
  ['stdio, 2025', 'stdio', 'legacy'],
  ['stdio, 2026', 'stdio', 'modern'],
  ['http, 2025', 'http', 'legacy'],
  ['http, 2026', 'http', 'modern'],
];

describe.each(kinds)('a client over %s', (name, transport, era) => {
  let person: Person = () => 'decline';
  let server: HttpServer | undefined;
  let cella: Connected;
  let agent = '';
  /** In a kernel of the test's own. */
  const run = (code: string, args: Record<string, unknown> = {}, options: Parameters<Connected['run']>[2] = {}) =>
    cella.run(code, { agent_key: agent, ...args }, options);

  beforeAll(async () => {
    const folder = mkdtempSync(join(host.folder, `${transport}-${era}-`));
    const wanted = { era, folder, person: (form: { message: string }) => person(form), flags: ['--tools', tools] };
    if (transport === 'http') server = await host.serve(wanted);
    cella = server ? await server.connect(wanted) : await host.stdio(wanted);
  });
  afterAll(async () => {
    await cella[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    agent = `${name} ${randomUUID()}`;
    person = () => 'decline';
  });

  it('keeps variables between calls, separately for each agent key', async () => {
    expect((await run('x = 41')).text).toBe('[done, with no output]');
    expect(await run('x + 1')).toMatchObject({ text: '42', failed: false });
    expect((await run("'x' in globals()", { agent_key: `${agent} too` })).text).toBe('False');
    // Keys of a server's users in storage begin so.
    expect(await run('1', { agent_key: '~ada/x' })).toMatchObject({ failed: true, text: expect.stringContaining('~') });
  });

  it('gets what code prints and then its value, in one text', async () => {
    const { text } = await run(
      'import sys\nprint("out"); sys.stdout.flush()\nsys.stderr.write("err\\n")\n{"a": [1, 2]}',
    );
    expect(text).toMatch(/^(out\nerr|err\nout)\n\{'a': \[1, 2\]\}$/);
  });

  it('gets the exceptions of code as failed results with their source lines', async () => {
    const { text, failed } = await run('print("before")\n1 / 0');
    expect(failed).toBe(true);
    expect(text).toMatch(/^before\nTraceback[\s\S]*1 \/ 0[\s\S]*ZeroDivisionError: division by zero/);
  });

  it('gets images that code displays and returns', async () => {
    const { result } = await run(`
import base64
class Dot:
    def _repr_png_(self): return base64.b64decode(${JSON.stringify(PNG)})
display(Dot())
print("between")
Dot()`);
    expect(result.content[0]).toMatchObject({ text: expect.stringMatching(/picture 1[\s\S]*between[\s\S]*picture 2/) });
    const image = { type: 'image', mimeType: 'image/png', data: PNG };
    expect(result.content.slice(1)).toEqual([image, image]);
  });

  it('has code stopped at its timeout, and continues with the variables', async () => {
    const stopped = await run('x = 1\nprint("began")\nwhile True: pass', { timeout: 0.5 });
    expect(stopped.failed).toBe(true);
    expect(stopped.text).toMatch(/began[\s\S]*at the time limit/);
    expect((await run('x')).text).toBe('1');
  });

  it('gets output while the code runs', async () => {
    const signal = `go ${randomUUID()}`;
    const heard: string[] = [];
    const code = `
import time
print("first", flush=True)
while not artifacts.exists(${JSON.stringify(signal)}): time.sleep(0.01)
print("last")`;
    let released: Promise<unknown> | undefined;
    const onprogress = ({ message = '' }) => {
      heard.push(message);
      // Only what is heard while the code runs lets it go on.
      if (!heard.join('').includes('first')) return;
      released ??= run(`artifacts.save(${JSON.stringify(signal)}, "now")`, { agent_key: `${agent} too` });
    };
    expect((await run(code, {}, { onprogress })).text).toBe('first\nlast\n');
    await released;
  });

  it('interrupts code by cancelling the call, and variables stay', async () => {
    const controller = new AbortController();
    const code = `
import time
stopped = False
try:
    print("running", flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    stopped = True`;
    const call = run(code, {}, { signal: controller.signal, onprogress: () => controller.abort() });
    await expect(call).rejects.toThrow();
    expect((await run('stopped')).text).toBe('True');
  });

  it('asks a person for every input() of the code', async () => {
    const asked: string[] = [];
    person = ({ message }) => {
      asked.push(message);
      return { answer: asked.length === 1 ? 'Ada' : 'Bob' };
    };
    const { text } = await run('print("Hello", input("Who? "), "and", input())');
    expect(text).toBe('Hello Ada and Bob\n');
    expect(asked).toEqual(['The code asks: Who? ', 'The code waits for a line of input.']);
  });

  it('runs concurrent calls one after the other', async () => {
    await run('import time\nseen = []');
    const calls = [1, 2, 3, 4].map((number) => run(`seen.append(${number}); time.sleep(0.01); len(seen)`));
    const counts = (await Promise.all(calls)).map(({ text }) => Number(text));
    expect(counts.toSorted()).toEqual([1, 2, 3, 4]);
    // Over HTTP each comes by a connection of its own, and any of them may be the first.
    const seen: number[] = JSON.parse((await run('seen')).text);
    expect(counts.map((count) => seen[count - 1])).toEqual([1, 2, 3, 4]);
  });

  it('raises EOFError if the question is declined, and never asks for secrets', async () => {
    const { text, failed } = await run('input("Who? ")');
    expect(failed).toBe(true);
    expect(text).toMatch(/EOFError: .*declined/);
    person = () => {
      throw new Error('a secret was requested');
    };
    expect((await run('import getpass; getpass.getpass()')).text).toMatch(/EOFError: .*must not ask for secrets/);
  });

  it('asks a person before a tool that requires approval, and only a yes runs it', async () => {
    const asked: string[] = [];
    person = ({ message }) => {
      asked.push(message);
      return { allow: asked.length === 1 };
    };
    expect((await run('print(tools.say("approved"))')).text).toContain('approved');
    expect((await run('tools.say("refused")')).text).toMatch(/PermissionError.*requires approval/);
    expect(asked).toEqual([expect.stringContaining('echo approved'), expect.stringContaining('echo refused')]);
  });

  it('is notified that a kernel has died, and what the next one restored', async () => {
    const died = await run('import os; os.kill(os.getpid(), 9)');
    expect(died.failed).toBe(true);
    expect(died.text).toContain('KERNEL_DIED');
    expect((await run('2 + 2')).text).toMatch(/^\[notice\] The previous kernel ended: [\s\S]*\n4$/);
  });

  it('rolls back the variables of code that failed in a transaction', async () => {
    await run('x = 1');
    const { text } = await run('x = 2; 1 / 0', { transaction: 'rollback_on_failure' });
    expect(text).toContain('rolled back');
    expect((await run('x')).text).toBe('1');
  });

  it('gets long output shortened in the middle, and the name of the complete output', async () => {
    const { text } = await run('print("begin" + "x" * 100_000 + "end")');
    expect(text.length).toBeLessThan(31_000);
    expect(text).toMatch(/^beginx+\n\[… 70,\d{3} characters left out …\]\nx+end\n/);
    const artifact = /the artifact (\S+):/.exec(text)?.[1] ?? '';
    expect((await run(`len(artifacts.load(${JSON.stringify(artifact)}))`)).text).toBe('100009');
    const { contents } = await cella.client.readResource({ uri: `cella://artifacts/${artifact}` });
    expect(contents[0]).toMatchObject({ text: `begin${'x'.repeat(100_000)}end\n` });
  });

  it('lists and finds tools for code, and reports invalid ones', async () => {
    const listed = await cella.call('list_tools');
    expect(textOf(listed)).toMatch(
      /tools\.say\(words: string\): Repeats words on a line \[each call requires approval/,
    );
    expect(textOf(listed)).toMatch(/\[cannot be used\].*broken\.yaml/);
    // As code writes it, and without a colon where there is nothing to say.
    expect(textOf(listed)).toMatch(/^tools\.tally\(\*files: string, lines: boolean = True\)$/m);
    expect(textOf(listed)).toMatch(/^ {2}tools\.tally\.bytes\(\*files: string, lines: boolean = False\)$/m);
    const found = await cella.call('search_tools', { query: 'repeat words' });
    expect(found.structuredContent).toMatchObject({ tools: [{ call: 'tools.say(words: string)' }] });
  });

  it('creates, finds, uses and deletes skills', async () => {
    const skill = `greet_${transport}_${era}`;
    const source = 'async def run(name: str, loud=False):\n    return f"Hello {name}"';
    const created = await cella.call('create_skill', { name: skill, source, description: 'Welcomes a guest.' });
    expect(textOf(created)).toBe(`Created skills.${skill}(name: str, loud=False): Welcomes a guest.`);
    expect(textOf(await cella.call('create_skill', { name: skill, source }))).toMatch(/^NAME_TAKEN: /);
    expect(textOf(await cella.call('search_skills', { query: 'welcome a guest' }))).toContain(`skills.${skill}(`);
    expect((await run(`skills.${skill}("Ada")`)).text).toBe("'Hello Ada'");
    await cella.call('delete_skill', { name: skill });
    expect(textOf(await cella.call('list_skills'))).not.toContain(skill);
    expect(textOf(await cella.call('delete_skill', { name: skill }))).toMatch(/^SKILL_NOT_FOUND: /);
  });

  it('gets the reason why a skill is not valid', async () => {
    const create = async (name: string, source: string) => await cella.call('create_skill', { name, source });
    const invalid = await create('broken', 'async def run(:\n    pass');
    expect(invalid.isError).toBe(true);
    expect(textOf(invalid)).toMatch(/^SKILL_INVALID: .*line 1/);
    expect(textOf(await create('../x', 'async def run(): pass'))).toMatch(/^INVALID_NAME: /);
  });

  it('reads artifacts as resources: text as text, the rest as bytes, large ones with advice', async () => {
    const prefix = `${transport} ${era}`;
    await run(`
artifacts.save("${prefix} note", "Grüße", description="a note")
artifacts.save("${prefix} bytes", bytes(range(256)))
artifacts.save("${prefix} large", b"x" * 6_000_000)`);
    const { resources } = await cella.client.listResources();
    const uri = (name: string) => `cella://artifacts/${encodeURIComponent(`${prefix} ${name}`)}`;
    expect(resources).toContainEqual(expect.objectContaining({ uri: uri('note'), description: 'a note', size: 7 }));
    const read = async (name: string) => (await cella.client.readResource({ uri: uri(name) })).contents[0];
    expect(await read('note')).toMatchObject({ text: 'Grüße' });
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    expect(await read('bytes')).toMatchObject({ blob: bytes.toString('base64') });
    await expect(read('large')).rejects.toThrow(/6000000 bytes.*artifacts\.load/);
    await expect(read('missing')).rejects.toThrow(/missing/);
    await expect(cella.client.readResource({ uri: 'cella://artifacts/..%2Fx' })).rejects.toThrow();
    expect(textOf(await cella.call('list_artifacts'))).toContain(
      `${prefix} note (text/plain; charset=utf-8, 7 bytes): a note`,
    );
  });

  it('gets an error for a wrong package, argument or tool, and continues', async () => {
    const bad = await cella.call('add_dep', { requirement: 'x; rm -rf /', agent_key: agent });
    expect(bad.isError).toBe(true);
    expect(textOf(bad)).toMatch(/^DEPS_INVALID: /);
    const wrong = cella.call('run_code', { code: 7 }).then(
      (result) => ({ text: textOf(result), failed: result.isError }),
      (error: Error) => ({ text: error.message, failed: true }),
    );
    expect(await wrong).toMatchObject({ failed: true, text: expect.stringContaining('code') });
    await expect(cella.call('no_such_tool')).rejects.toThrow(/no_such_tool/);
    expect((await run('1 + 1')).text).toBe('2');
  });
});

describe('a question in the 2026 protocol', () => {
  it('ends the call, and its token is valid for one answer', async () => {
    await using cella = await host.stdio({ era: 'modern', person: () => 'decline' });
    const args = { name: 'run_code', arguments: { code: 'print("Hello", input("Who? "))', agent_key: 'once' } };
    const call = async (more: object) =>
      await cella.client.request({ method: 'tools/call', params: { ...args, ...more } }, { allowInputRequired: true });
    const asked = await call({});
    if (!isInputRequiredResult(asked)) throw new Error('nothing was asked');
    const inputResponses = { question: { action: 'accept', content: { answer: 'Ada' } } };
    const { requestState } = asked;
    expect(textOf((await call({ inputResponses, requestState })) as CallToolResult)).toBe('Hello Ada\n');
    const again = (await call({ inputResponses, requestState })) as CallToolResult;
    expect(again.isError).toBe(true);
    expect(textOf(again)).toContain('has ended');
  });
});
