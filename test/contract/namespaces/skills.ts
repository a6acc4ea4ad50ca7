/** Skills, as code in a kernel keeps and runs them. */

import { describe, expect, it } from 'vitest';
import { runUntilReady } from '../../support/kernels/session.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { errorOf, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import type { Place } from './namespaces.ts';

export function namespaceSkills(place: Place): void {
  describe('skills in a kernel', () => {
    it('keep description and parameters, also for other sessions', async () => {
      const { session, storage } = await openWith(place);
      const source = 'async def run(n: int, by: int = 2) -> int:\\n    return n * by\\n';
      await pyValue(session, `skills.create("double", "${source}", "Multiplies a number")`);
      const other = await openWith(place, { storage, agentKey: 'other' });
      expect(await pyValue(other.session, 'skills.list()')).toMatchObject([
        {
          name: 'double',
          description: 'Multiplies a number',
          parameters: [
            { name: 'n', annotation: 'int', required: true },
            { name: 'by', annotation: 'int', default: '2', required: false },
          ],
        },
      ]);
      expect(await pyValue(other.session, '[skills.double(4), skills.invoke("double", n=2, by=5)]')).toEqual([8, 10]);
      expect(await pyValue(other.session, 'skills.get("double")["source"]')).toContain('return n * by');
      expect((await other.session.run('help(skills.double)')).stdout).toContain('Multiplies a number');
      await pyValue(other.session, 'skills.delete("double")');
      expect(await errorOf(session, 'skills.double(1)')).toMatchObject({ name: 'CellaLookupError' });
    });

    it('call tools, other skills and themselves, awaited or not', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put(
        'say',
        'name: say\ndescription: x\ncommand: echo\nschema:\n  positional:\n    - { name: text, type: string }\n',
      );
      const code = `
skills.create("loud", "async def run(text):\\n    return (await tools.say(text)).strip().upper() + tools.say(text).strip()\\n")
skills.create("fact", "async def run(n):\\n    return 1 if n == 0 else n * await skills.fact(n - 1)\\n")
skills.create("sync_fact", "async def run(n):\\n    return 1 if n == 0 else n * skills.sync_fact(n - 1)\\n")
skills.create("both", "import asyncio\\nasync def run(n):\\n    return await asyncio.gather(asyncio.sleep(0, skills.fact(n)), tools.say.call_async(str(n)))\\n")
[skills.loud("a"), await skills.loud("b"), skills.fact(5), skills.sync_fact(5), skills.both(3)]`;
      expect(await pyValue(session, code)).toEqual(['Aa', 'Bb', 120, 120, [6, '3\n']]);
    });

    it('show their own source lines when they fail', async () => {
      const { session } = await openWith(place);
      const source = 'async def run(n):\\n    half = n // 2\\n    return 1 / half  # here\\n';
      await pyValue(session, `skills.create("bad", "${source}")`);
      const { error } = await session.run('skills.bad(1)');
      expect(error?.traceback).toContain('File "<skill bad>", line 3, in run\n    return 1 / half  # here');
      expect(error?.traceback).not.toContain('cella_kernel');
      await pyValue(
        session,
        'skills.delete("bad"); skills.create("bad", "async def run(n):\\n    raise KeyError(n)\\n")',
      );
      const again = await session.run('await skills.bad(1)');
      expect(again.error?.traceback).toContain('raise KeyError(n)');
    });

    it('are not run when they are created', async () => {
      const { session } = await openWith(place);
      const source = "import os\\nopen('ran', 'w').close()\\nos._exit(3)\\nasync def run():\\n    pass\\n";
      await pyValue(session, `skills.create("quiet", "${source}")`);
      expect(await pyValue(session, 'import os; os.path.exists("ran")')).toBe(false);
    });

    it('are refused with the line if they are not skills, and under invalid names', async () => {
      const { session } = await openWith(place);
      expect((await errorOf(session, 'skills.create("a", "async def run(:\\n  pass")')).message).toContain('line 1');
      expect((await errorOf(session, 'skills.create("a", "def run():\\n    pass")')).message).toContain(
        'async def run',
      );
      for (const name of ['', 'a b', '../x', 'list', 'class', '_x', '1a', 'x'.repeat(300)]) {
        const { name: kind } = await errorOf(
          session,
          `skills.create(${JSON.stringify(name)}, "async def run(): pass")`,
        );
        expect(kind).toBe('CellaValueError');
      }
      await pyValue(session, 'skills.create("a", "async def run(): pass")');
      expect((await errorOf(session, 'skills.create("a", "async def run(): pass")')).message).toContain('already');
    });

    it('stop when the cell is interrupted, even in an endless loop', async () => {
      const { session } = await openWith(place);
      const source = "async def run():\\n    print('ready', flush=True)\\n    while True: pass\\n";
      await pyValue(session, `x = 5; skills.create("endless", "${source}")`);
      const { result } = await runUntilReady(session, 'skills.endless()');
      await session.interrupt();
      expect(await result).toMatchObject({ status: 'interrupted' });
      expect(await pyValue(session, 'x')).toBe(5);
    });

    it('are found by plain words', async () => {
      const { session } = await openWith(place);
      const code = `
for name, text in {"fetch_page": "Downloads a web page and gives its text", "bar_chart": "Draws a bar chart of numbers"}.items():
    skills.create(name, "async def run(): pass", text)
[skills.search("get the content of a URL")[0]["name"], skills.search("plot values")[0]["name"]]`;
      expect(await pyValue(session, code)).toEqual(['fetch_page', 'bar_chart']);
    });
  });
}
