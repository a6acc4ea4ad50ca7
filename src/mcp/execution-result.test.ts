import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FileStorage, type OpenedNamespaces, openNamespaces } from '../index.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import {
  cutMiddle,
  ExecutionOutput,
  MAX_RESULT_CHARACTERS,
  saveFullOutput,
  toExecutionReport,
} from './execution-result.ts';

const result = (more: Partial<ResultEvent> = {}): ResultEvent => ({
  type: 'result',
  status: 'ok',
  execution: 1,
  stdout: '',
  stderr: '',
  displays: [],
  durationMs: 1500,
  ...more,
});

function report(more: Partial<ResultEvent>, { printed = '', output = new ExecutionOutput() } = {}) {
  output.take({ type: 'stdout', text: printed });
  const { result: shown, fullOutput } = toExecutionReport(result(more), output);
  const [first] = shown.content;
  return { text: first?.type === 'text' ? first.text : '', shown, fullOutput };
}

describe('a report', () => {
  it('mentions a save only if it restored or lost variables', () => {
    expect(report({ repr: '2', resumed: { savedAgoMs: 3000, restored: [], lost: [] } }).text).toBe('2');
    expect(report({ repr: '2', resumed: { savedAgoMs: 3000, restored: ['x'], lost: [] } }).text).toMatch(
      /^\[notice\].*: x\.\n/,
    );
    expect(report({ repr: '2', resumed: { restored: [], lost: [] } }).text).toMatch(
      /^\[notice\].*all variables are lost/,
    );
  });

  it('never exceeds what a model can use, and says what is omitted', () => {
    const long = 'x'.repeat(50_000);
    const lost = Array.from({ length: 500 }, (_, index) => ({ name: `name${index}`, reason: long }));
    const { text, fullOutput } = report(
      { repr: long, error: { name: 'E', message: long, traceback: long }, resumed: { restored: [long], lost } },
      { printed: long },
    );
    expect(text.length).toBeLessThan(MAX_RESULT_CHARACTERS + 500);
    expect(fullOutput).toMatchObject({ text: expect.stringMatching(/^(x{50000}\n?){3}$/), complete: true });
  });

  it('is complete if it fits', () => {
    expect(report({ repr: '42' }, { printed: 'said\n' })).toMatchObject({ text: 'said\n42', fullOutput: undefined });
  });

  it('says how code ended if it did not just finish', () => {
    expect(report({ status: 'timeout' }).text).toBe(
      '[stopped after 1.5 s, at the time limit; the kernel keeps its variables]',
    );
    expect(report({ status: 'interrupted' }).shown.isError).toBe(true);
    expect(report({ exitCode: 0 })).toMatchObject({
      text: expect.stringContaining('sys.exit'),
      shown: { content: [{}] },
    });
    const death = { code: 'KERNEL_OUT_OF_MEMORY', message: 'It used too much.' } as const;
    expect(report({ status: 'died', death }).text).toMatch(/KERNEL_OUT_OF_MEMORY: It used too much\. .*memoryMb/);
  });

  it('lists the variables that were restored after a death, and those that were lost', () => {
    const cause = { code: 'KERNEL_DIED', message: 'It was killed by SIGKILL.' } as const;
    const lost = [{ name: 's', reason: 'a socket' }];
    const { text } = report({ recovered: { cause, savedAgoMs: 2000, restored: ['x', 'y'], lost }, repr: '1' });
    expect(text).toBe(
      `[notice] The previous kernel ended: It was killed by SIGKILL. Cella does not run the code again.
[notice] Variables restored from a save, 2.0 s old: x, y.
[notice] Lost: s (a socket).
1`,
    );
  });

  it('shows a picture once, and describes other data or too much data', () => {
    const output = new ExecutionOutput();
    const png = Buffer.from('a picture').toString('base64');
    output.take({ type: 'display', data: { 'image/png': `${png}\n`, 'text/plain': '<Figure>' } });
    output.take({ type: 'display', data: { 'image/png': '<script>' } });
    output.take({ type: 'display', data: { 'image/jpeg': 'A'.repeat(8_000_000) } });
    output.take({ type: 'display', data: { 'text/html': '<b>bold</b>' } });
    output.take({ type: 'display', data: { 'application/x-own': 'x' } });
    const { text, shown } = report({}, { output });
    expect(shown.content.slice(1)).toEqual([{ type: 'image', mimeType: 'image/png', data: png }]);
    expect(text).toBe(
      `[picture 1: image/png, 1 kB]
[image/png: its data is not base64, not shown]
[image/jpeg, 6000 kB: too much to show; make it smaller, or save it with artifacts.save()]
<b>bold</b>
[application/x-own: cannot be shown here]
`,
    );
  });
});

const MOST_KEPT = 20;

describe('output that is too long', () => {
  let folder: string;
  let storage: FileStorage;
  let namespaces: OpenedNamespaces;
  let time = 0;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cella-output-'));
    // Each thing is kept a second after the one before.
    storage = await FileStorage.open(folder, { clock: () => (time += 1000) });
    namespaces = await openNamespaces({ dataDir: folder, storage });
  });

  afterAll(async () => {
    await namespaces[Symbol.asyncDispose]();
    await storage.close();
    await rm(folder, { recursive: true, force: true });
  });

  const keep = (agentKey: string, execution: number, text = 'long') =>
    saveFullOutput(namespaces, { agentKey, execution, text, complete: true });
  const nameIn = (line: string) => /output-\w+-\d+\.txt/.exec(line)?.[0] ?? '';

  it('is saved, and the oldest of the agent key is removed', async () => {
    const lines: string[] = [];
    for (let execution = 1; execution <= MOST_KEPT + 1; execution++) lines.push(await keep('one', execution));
    const other = await keep('another', 1);
    const there = await Promise.all([...lines, other].map((line) => namespaces.artifacts.exists(nameIn(line))));
    expect(there).toEqual([false, ...lines.slice(1).map(() => true), true]);
  });

  it('is among the newest even if an earlier execution had the same number', async () => {
    await keep('one', 2, 'again');
    const last = await keep('one', MOST_KEPT + 2);
    expect(await namespaces.artifacts.exists(nameIn(last))).toBe(true);
    expect(await namespaces.artifacts.exists(nameIn(last).replace(/\d+\.txt$/, '2.txt'))).toBe(true);
  });
});

describe('long text', () => {
  const print = (output: ExecutionOutput, text: string) => output.take({ type: 'stdout', text });

  it('is complete if it fits, and a display begins a line of its own', () => {
    const output = new ExecutionOutput();
    print(output, 'one ');
    print(output, 'two');
    output.take({ type: 'display', data: { 'text/plain': 'shown' } });
    output.take({ type: 'display', data: { 'text/plain': 'again' } });
    expect(output.text).toBe('one two\nshown\nagain\n');
  });

  it('keeps its beginning and its end, and counts the rest', () => {
    const output = new ExecutionOutput();
    print(output, 'begin');
    for (let megabyte = 0; megabyte < 10; megabyte++) print(output, 'x'.repeat(1024 * 1024));
    print(output, 'end');
    const kept = output.text;
    expect(kept.length).toBeLessThan(9 * 1024 * 1024);
    expect(kept).toMatch(/^beginx/);
    expect(output.lost).toBe(2_031_621);
    expect(cutMiddle(kept, 10, output.lost)).toContain(
      `[… ${(10 * 1024 * 1024 + 8 + 42 - 10).toLocaleString('en')} characters left out`,
    );
    expect(kept).toMatch(/\[… 2,031,621 characters were not kept …\]\nx+end$/);
  });
});

describe('a cut', () => {
  it('does not change short text', () => expect(cutMiddle('abc', 3)).toBe('abc'));

  it('shows the beginning and the end, and counts the middle', () => {
    expect(cutMiddle('aaaaaabbbbbbbbbbccc', 9)).toBe('aaaaaa\n[… 10 characters left out …]\nccc');
  });

  it('splits no characters', () => expect(cutMiddle('😀😀😀😀', 3).isWellFormed()).toBe(true));
});
