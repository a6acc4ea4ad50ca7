import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { descendants, isAlive } from '../../../test/support/processes/processes.ts';
import { findPython } from '../../interpreter/find-python.ts';
import { type ParserHelper, PythonSkillParser } from './skill-parser.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const good = 'async def run(a): pass';

const open: PythonSkillParser[] = [];
function reader(options: { timeoutMs?: number; idleMs?: number } = {}): PythonSkillParser {
  const made = new PythonSkillParser({ python: () => findPython(python), ...options });
  open.push(made);
  return made;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

const helpers = () => descendants(process.pid).filter(({ command }) => command.includes('Reads skills without'));

describe('the parser of skills', () => {
  test('one helper parses many sources, one after the other', async () => {
    const made = reader();
    const readings = await Promise.all(
      Array.from({ length: 50 }, (_, index) => made.parse(`async def run(a${index}): pass`)),
    );
    expect(readings.map(({ parameters }) => parameters[0]?.name)).toEqual(readings.map((_, index) => `a${index}`));
    expect(helpers()).toHaveLength(1);
  });

  test.skipIf(process.getuid?.() !== 0)('runs as nobody if the host is root', async () => {
    await reader().parse(good);
    const status = readFileSync(`/proc/${helpers()[0]?.pid}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\s+65534\s+65534\s+65534\s+65534$/m);
    expect(status).toMatch(/^Gid:\s+65534\s+65534\s+65534\s+65534$/m);
    expect(status).toMatch(/^Groups:\s*$/m);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
  });

  test('has an empty environment', async () => {
    await reader().parse(good);
    const owner = process.getuid?.() === 0;
    expect(owner ? readFileSync(`/proc/${helpers()[0]?.pid}/environ`, 'utf8') : '').toBe('');
  });

  test.each([
    ['brackets without end', `async def run(): return ${'('.repeat(100_000)}`],
    ['operators without end', `async def run(): return ${'-'.repeat(200_000)}1`],
    ['attributes without end', `async def run(): return a${'.b'.repeat(100_000)}`],
    ['sums without end', `async def run(): return 1${'+1'.repeat(100_000)}`],
    ['blocks without end', Array.from({ length: 200 }, (_, deep) => `${' '.repeat(deep)}if x:`).join('\n')],
    ['f-strings without end', `async def run(): return ${'f"{'.repeat(50_000)}`],
  ])('%s are refused, and the next source is read', async (_what, source) => {
    const made = reader();
    await expect(made.parse(source)).rejects.toMatchObject({ code: 'SKILL_INVALID' });
    expect(await made.parse(good)).toMatchObject({ parameters: [{ name: 'a' }] });
  });

  test('a source that takes too long is refused, and the next one is parsed', async () => {
    const made = reader({ timeoutMs: 1 });
    const slow = `async def run():\n${'    x = [a for b in c if d]\n'.repeat(9000)}`;
    await expect(made.parse(slow)).rejects.toMatchObject({
      code: 'SKILL_INVALID',
      message: expect.stringContaining('took longer'),
    });
    const patient = reader();
    expect(await patient.parse(good)).toMatchObject({ parameters: [{ name: 'a' }] });
  });

  test('a helper that was killed is replaced', async () => {
    const made = reader();
    await made.parse(good);
    const [helper] = helpers();
    process.kill(helper?.pid ?? 0, 'SIGKILL');
    await expect.poll(() => isAlive(helper?.pid ?? 0)).toBe(false);
    expect(await made.parse(good).catch(() => made.parse(good))).toMatchObject({ parameters: [{ name: 'a' }] });
  });

  test('an idle helper is ended, and so is that of a closed parser', async () => {
    const brief = reader({ idleMs: 1 });
    await brief.parse(good);
    await expect.poll(() => helpers()).toEqual([]);
    const made = reader();
    await made.parse(good);
    expect(helpers()).toHaveLength(1);
    await made.close();
    await made.close();
    expect(helpers()).toEqual([]);
    await expect(made.parse(good)).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  });

  test('a missing Python is reported as such, not as a bad skill', async () => {
    const lost = new PythonSkillParser({ python: async () => '/nowhere/python' });
    await expect(lost.parse(good)).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
    const wrong = new PythonSkillParser({ python: async () => '/bin/true' });
    await expect(wrong.parse(good)).rejects.toMatchObject({ code: 'PYTHON_NOT_FOUND' });
  });
});

describe('without a Python on the host', () => {
  /** Another interpreter: it has no limits to set and no signals, and is asked by a call. */
  const PROGRAM = `
import json, sys
sys.modules["resource"] = sys.modules["signal"] = None
program, source = json.load(sys.stdin)
names = {"__name__": "reader"}
exec(program, names)
print(names["reply"](source))
`;
  const interpreter = () => {
    const told = { started: 0, ended: 0 };
    const start = async (program: string): Promise<ParserHelper> => {
      told.started += 1;
      let alive = true;
      return {
        get alive() {
          return alive;
        },
        ask: async (source) => {
          if (source.includes('endless')) return { kind: 'late', reason: 'it took longer than it may' };
          const input = JSON.stringify([program, source]);
          return {
            kind: 'reply',
            line: execFileSync(python, ['-I', '-c', PROGRAM], { input, encoding: 'utf8' }).trim(),
          };
        },
        end: async () => {
          told.ended += 1;
          alive = false;
        },
      };
    };
    return { told, start };
  };
  const nowhere = async () => findPython('/nowhere/python');

  test('another interpreter parses, and refuses invalid skills', async () => {
    const { told, start } = interpreter();
    await using made = new PythonSkillParser({ python: nowhere, fallback: start });
    expect(await made.parse(good)).toMatchObject({ parameters: [{ name: 'a' }] });
    await expect(made.parse('def run(): pass')).rejects.toMatchObject({
      code: 'SKILL_INVALID',
      message: expect.stringContaining('async def run'),
    });
    expect(told).toEqual({ started: 1, ended: 0 });
  });

  test('one that does not return is ended, and the next source is parsed', async () => {
    const { told, start } = interpreter();
    const made = new PythonSkillParser({ python: nowhere, fallback: start });
    await expect(made.parse('endless')).rejects.toMatchObject({ code: 'SKILL_INVALID' });
    expect(await made.parse(good)).toMatchObject({ parameters: [{ name: 'a' }] });
    await made.close();
    expect(told).toEqual({ started: 2, ended: 2 });
  });

  test('the host’s own Python is used if there is one', async () => {
    const { told, start } = interpreter();
    await using made = new PythonSkillParser({ python: () => findPython(python), fallback: start });
    await made.parse(good);
    expect(told.started).toBe(0);
  });
});
