/** Mistakes that systems of this kind have made with tools, skills, storage and packages. Each has a test of its own. */

import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FileStorage, RedisStorage } from '../../../src/index.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { newIndex, newStorage, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import { RedisServer } from '../../support/servers/redis.ts';

const place = { open: openSession, openStorage: async () => await FileStorage.open(await scratchFolder()) };
let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

describe('the mistake', () => {
  it('creating a skill executed it on the host', async () => {
    const mark = join(await scratchFolder(), 'executed');
    const { session } = await openWith(place);
    const source = `open(${JSON.stringify(mark)}, "w").close()\nasync def run():\n    pass\n`;
    await pyValue(session, `skills.create("marks", ${JSON.stringify(source)})`);
    await session.skills.create({ name: 'marks_too', source });
    expect(await session.skills.search('anything that marks')).toBeInstanceOf(Array);
    expect(existsSync(mark)).toBe(false);
  });

  it('an async skill that called a tool deadlocked', async () => {
    const { session, storage } = await openWith(place, { timeoutMs: 20_000 });
    await storage.tools.put(
      'say',
      'name: say\ndescription: x\ncommand: echo\nschema:\n  positional:\n    - { name: text, type: string }\n',
    );
    const source =
      'async def run():\n    return [tools.say("a"), await tools.say("b"), await tools.say.call_async("c")]\n';
    await pyValue(session, `skills.create("asks", ${JSON.stringify(source)})`);
    const all = ['a\n', 'b\n', 'c\n'];
    expect(await pyValue(session, '[skills.asks(), await skills.asks()]')).toEqual([all, all]);
  });

  it('CLI tools inherited stdin and ate the protocol', async () => {
    const { session, storage } = await openWith(place);
    await storage.tools.put('eat', 'name: eat\ndescription: x\ncommand: cat\n');
    await storage.tools.put('eat_here', 'name: eat_here\ndescription: x\ncommand: cat\nruns_on: host\n');
    const cells = ['tools.eat()', 'tools.eat_here()', 'tools.eat() + tools.eat_here()', '"still there"'];
    const results = await Promise.all(cells.map((code) => session.run(code)));
    expect(results.map(({ value }) => value)).toEqual(['', '', '', 'still there']);
  });

  it('Redis keys and indexes were shared across prefixes', async () => {
    const prefix = randomUUID();
    const one = await newStorage({ openStorage: () => RedisStorage.open(redis.url, { prefix }) });
    const two = await newStorage({ openStorage: () => RedisStorage.open(redis.url, { prefix: `${prefix}:tools` }) });
    const { session } = await openWith(place, { storage: one });
    await pyValue(session, 'skills.create("mine", "async def run(): pass"); artifacts.save("mine", 1)');
    await one.deps.add('mine');
    await one.tools.put('mine', 'name: mine\ndescription: x\ncommand: echo\n');
    const other = await openWith(place, { storage: two, agentKey: 'other' });
    const seen =
      '[skills.list(), skills.search("mine"), artifacts.list(), deps.list(), tools.list(), tools.search("mine")]';
    expect(await pyValue(other.session, seen)).toEqual([[], [], [], [], [], []]);
  });

  it('env values were pasted into source, so that a quote broke the cell', async () => {
    const value = `it's "quoted" \\ \n''' """ \${HOME} %s {x} ä`;
    const { session, storage } = await openWith(place, { env: { TRICKY: value } });
    await storage.tools.put('printenv', 'name: printenv\ndescription: x\ncommand: [printenv, TRICKY]\n');
    expect(await pyValue(session, 'import os; os.environ["TRICKY"]')).toBe(value);
    expect(await pyValue(session, 'tools.printenv()')).toBe(`${value}\n`);
  });

  it('deps reported success although the install had failed', async () => {
    const { index } = await newIndex();
    const { session, storage } = await openWith(place, { packages: { index: index.url } });
    expect(await pyValue(session, 'deps.add("no-such-package")')).toMatchObject({
      installed: [],
      failed: [{ requirement: 'no-such-package', reason: expect.stringContaining('no-such-package') }],
    });
    expect(await storage.deps.list()).toEqual([]);
  });
});
