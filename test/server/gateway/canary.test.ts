/** The search for a secret finds it wherever a process can leave one: without that, finding nothing would say nothing. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { type CanaryPlaces, canariesIn } from '../../support/processes/canary.ts';
import { corePattern, dumpsIn } from '../../support/processes/crash-dumps.ts';

const KEY = 'sk-ant-CANARY/0123+4567~89';
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    const gone = once(child, 'exit');
    process.kill(-(child.pid ?? 0), 'SIGKILL'); // with what it has started
    await gone;
  }
});

async function python(code: string, words: string[] = [], env: Record<string, string> = {}): Promise<number> {
  const waiting = `${code}\nprint('ready', flush=True)\nimport time; time.sleep(600)`;
  const child = spawn('/usr/bin/python3', ['-c', waiting, ...words], {
    ...{ env, detached: true },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  await once(child.stdout, 'data');
  return child.pid ?? 0;
}

const found = (places: CanaryPlaces): string => canariesIn(KEY, places).join(' ');

it('in environments and command lines, also of child processes', async () => {
  expect(found({ processes: [await python('')] })).toBe('');
  expect(found({ processes: [await python('', [], { A: `x${KEY}` })] })).toMatch(/environ$/);
  expect(found({ processes: [await python('', [KEY])] })).toMatch(/cmdline$/);
  const spelled = [...`x${KEY}`].map((letter) => letter.charCodeAt(0)).join(',');
  const child = `import subprocess; subprocess.Popen(['sleep', '600'], env={'A': ''.join(map(chr, [${spelled}]))})`;
  const parent = await python(child);
  // A process that has just begun has no environment for a moment.
  await expect.poll(() => found({ processes: [parent] })).toMatch(/environ$/);
});

it('in memory, and in open files without a name', async () => {
  // Put together in the process, so that its command line does not hold it.
  const parts = [...KEY].map((letter) => letter.charCodeAt(0)).join(',');
  expect(found({ processes: [await python('import os')], memory: true })).toBe('');
  const held = await python(`import sys; key = ''.join(map(chr, [${parts}]))`);
  expect(found({ processes: [held] })).toBe('');
  expect(found({ processes: [held], memory: true })).toContain('the memory of');
  const open = await python(
    `import tempfile; f = tempfile.TemporaryFile(); f.write(bytes([${parts}])); f.flush(); f.seek(0)`,
  );
  expect(found({ processes: [open] })).toMatch(/\/fd\/\d+$/);
});

it('in files, names and links below a folder, and in texts, in the usual spellings', async () => {
  const folder = await scratchFolder();
  mkdirSync(join(folder, 'a'));
  const path = join(folder, 'a', 'b');
  const bytes = Buffer.from(KEY);
  const spelled = [KEY, bytes.toString('hex'), encodeURIComponent(KEY), [...KEY].toReversed().join('')];
  const around = ['', 'x', 'xy'].map((before) => Buffer.from(`${before}${KEY}z`).toString('base64'));
  for (const text of [...spelled, ...around, Buffer.from(`ab${KEY}`).toString('base64url')]) {
    writeFileSync(path, 'x'.repeat(5_000_000) + text);
    expect(found({ folders: [folder] }), text).toBe(path);
    expect(found({ texts: { events: `{"a":"${text}"}` } })).toBe('events');
  }
  writeFileSync(path, KEY.slice(0, -1));
  expect(found({ folders: [folder], texts: { log: KEY.slice(1) } })).toBe('');
  symlinkSync(`/nowhere/${KEY}`, join(folder, 'link'));
  writeFileSync(join(folder, encodeURIComponent(KEY)), '');
  expect(canariesIn(KEY, { folders: [folder] })).toHaveLength(2);
});

/** Where the system writes a dump into the folder of whoever crashes, and lets this user have one. */
const dumps =
  corePattern() === 'core' && !/^Max core file size +\S+ +0 /m.test(readFileSync('/proc/self/limits', 'utf8'));

it.skipIf(!dumps)('in core dumps, whatever their names', async () => {
  const folder = await scratchFolder();
  const parts = [...KEY].map((letter) => letter.charCodeAt(0)).join(',');
  const code = `import os, resource; key = ''.join(map(chr, [${parts}]))
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]; resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)); os.abort()`;
  const child = spawn('/usr/bin/python3', ['-c', code], { cwd: folder, env: {}, stdio: 'ignore' });
  expect(await once(child, 'exit')).toEqual([null, 'SIGABRT']);
  const [dump = '', ...others] = dumpsIn([folder]);
  expect(others).toEqual([]);
  const renamed = join(folder, 'nothing-to-see');
  renameSync(dump, renamed);
  expect(dumpsIn([folder])).toEqual([renamed]);
  expect(found({ folders: [folder] })).toBe(renamed);
});
