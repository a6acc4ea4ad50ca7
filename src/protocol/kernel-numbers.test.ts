import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ExitCode, FrameType, HEADER_BYTES, KernelFd, KernelLimit } from './kernel-frames.ts';
import { fromKernel } from './kernel-payloads.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const numbersOfPython = `
import json, runpy, sys
names = runpy.run_path(sys.argv[1])
print(json.dumps({name: value for name, value in names.items() if type(value) is int and not name.startswith("_")}))
`;

/** `fd` and `stdoutReader` are FD_STDOUT_READER. */
const named = (numbers: Readonly<Record<string, number>>, prefix = '') =>
  Object.entries(numbers).map(([name, value]): [string, number] => [
    `${prefix}${name.replaceAll(/[A-Z]/g, '_$&').toUpperCase()}`,
    value,
  ]);

test('host and Python have the same numbers, and no number is missing on one side', () => {
  const path = fileURLToPath(new URL('../../python/cella_kernel/protocol.py', import.meta.url));
  const output = execFileSync(python, ['-I', '-B', '-c', numbersOfPython, path], { encoding: 'utf8' });
  const ofHost = Object.fromEntries([
    ...named(FrameType),
    ...named({ headerBytes: HEADER_BYTES }),
    ...named(KernelFd, 'FD_'),
    ...named(ExitCode, 'EXIT_'),
    ...named(KernelLimit),
  ]);
  expect(z.record(z.string(), z.int()).parse(JSON.parse(output))).toEqual(ofHost);
});

const page = readFileSync(new URL('../../docs/internals/kernel-protocol.md', import.meta.url), 'utf8');

test('docs/internals/kernel-protocol.md has every exit code', () => {
  const table = page.slice(page.indexOf('### Exit codes'), page.indexOf('### Host to pid 1'));
  const codes = [...table.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  expect(codes).toEqual(Object.values(ExitCode));
});

test('docs/internals/kernel-protocol.md has every frame by its letter and name, and no other', () => {
  const rows = [...page.matchAll(/^\| `(.)` ([A-Z_]+) \|/gm)].map(([, letter = '', name = '']) => [name, letter]);
  const frames = named(FrameType).map(([name, type]) => [name, String.fromCharCode(type)]);
  expect(Object.fromEntries(rows.sort())).toEqual(Object.fromEntries(frames.sort()));
});

test('docs/internals/kernel-protocol.md has the sizes that the host allows, and the limit on snapshots', () => {
  const table = page.slice(page.indexOf('### Kernel to host'));
  const unit = { KiB: 1024, MiB: 1024 * 1024 };
  const rows = table.matchAll(/^\| `(.)` [A-Z_]+ \| [^|]* \| (\d+) (KiB|MiB)/gm);
  const sizes = [...rows].map(([, letter = '', count, size]): [number, number] => [
    letter.charCodeAt(0),
    Number(count) * unit[size as keyof typeof unit],
  ]);
  expect(sizes.length).toBeGreaterThan(8);
  expect(sizes).toEqual(sizes.map(([type]) => [type, fromKernel.get(type)]));
  expect(page).toContain(`A sandbox keeps at most ${KernelLimit.mostSnapshots}.`);
});
