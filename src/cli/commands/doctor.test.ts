import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import { type DoctorReport, type DoctorSurroundings, doctor } from './doctor.ts';

const names = ['namespaces', 'userns', 'landlock', 'seccomp', 'uid', 'cgroup', 'rlimits'];

function machine(root: boolean, ...missing: string[]): DoctorReport {
  const layers = names.map((name) => {
    const available = !missing.includes(name);
    return { name, available, detail: `${name} detail`, fix: available ? '' : `mend ${name}` };
  });
  return { python: '3.11.2', executable: '/usr/bin/python3', kernel: '6.1', root, layers };
}

async function ask(
  found: DoctorReport & Partial<DoctorSurroundings>,
  options: { json?: boolean; noColor?: boolean; isTTY?: boolean; columns?: number } = {},
) {
  const { isTTY = false, columns = 1000 } = options;
  const out = Object.assign(new PassThrough(), { isTTY, columns });
  const exitCode = await doctor(found, { json: options.json ?? false, noColor: options.noColor ?? false }, out);
  return { exitCode, text: String(out.read()) };
}

test('a machine with everything can start kernels', async () => {
  const { exitCode, text } = await ask(machine(true));
  expect(exitCode).toBe(0);
  expect(text).toContain('✓ landlock    landlock detail\n');
  expect(text.endsWith('\nSandboxed kernels can start here.\n')).toBe(true);
});

test('missing parts are listed with their fix', async () => {
  const { exitCode, text } = await ask(machine(true, 'cgroup', 'uid'));
  expect(exitCode).toBe(1);
  expect(text).toContain('✗ cgroup      cgroup detail\n              mend cgroup\n');
  expect(text.endsWith('\nSandboxed kernels cannot start here: uid, cgroup are missing.\n')).toBe(true);
});

test.each([
  [true, 'userns', 0],
  [true, 'uid', 1],
  [false, 'userns', 1],
  [false, 'uid', 0],
  [false, 'cgroup', 0],
  [false, 'rlimits', 1],
])('root %s without %s ends with %i', async (root, missing, exitCode) => {
  expect((await ask(machine(root, missing))).exitCode).toBe(exitCode);
});

test('a layer that is not reported counts as missing', async () => {
  const found = machine(false);
  const layers = found.layers.filter(({ name }) => name !== 'landlock');
  expect((await ask({ ...found, layers })).exitCode).toBe(1);
});

const others = [
  { name: 'container', available: false, detail: 'no engine was found', fix: 'start Docker' },
  { name: 'in-process', available: true, detail: 'Pyodide 1.2.3', fix: '' },
];

test('the executors are listed with what they lack; unused ones do not fail the check', async () => {
  const { exitCode, text } = await ask({ ...machine(true), executors: others });
  expect(exitCode).toBe(0);
  expect(text).toContain('✓ subprocess  sandboxed processes, Python 3.11.2\n');
  expect(text).toContain('✗ container   no engine was found (not required)\n              start Docker\n');
  expect(text).toContain('✓ in-process  Pyodide 1.2.3\n');
  const lacking = await ask({ ...machine(true, 'seccomp'), executors: others });
  expect(lacking.exitCode).toBe(1);
  expect(lacking.text).toContain('✗ subprocess  needs what is missing above: seccomp\n');
});

test('a machine without a Python is reported, with the executors that need none', async () => {
  const bare = {
    root: false,
    layers: [],
    problem: 'There is no python3 on PATH.',
    fix: 'Install it.',
    executors: others,
  };
  const { exitCode, text } = await ask(bare);
  expect(exitCode).toBe(1);
  expect(text).toMatch(/^There is no python3 on PATH\.\n\n✗ subprocess {2}there is no Python for it\n +Install it\.\n/);
  expect(text).toContain('✓ in-process');
  expect(text.endsWith('\nSandboxed kernels cannot start here: Python is missing.\n')).toBe(true);
  const told = JSON.parse((await ask(bare, { json: true })).text);
  expect(told).toMatchObject({ ok: false, problem: bare.problem, layers: [] });
  expect(told.executors.map(({ name, available }: { name: string; available: boolean }) => [name, available])).toEqual([
    ['subprocess', false],
    ['container', false],
    ['in-process', true],
  ]);
});

test('--json is one object on one line', async () => {
  const { exitCode, text } = await ask(machine(false, 'cgroup'), { json: true, isTTY: true });
  expect(exitCode).toBe(0);
  expect(text.trimEnd()).not.toContain('\n');
  const told = JSON.parse(text);
  expect(Object.keys(told)).toEqual(['python', 'executable', 'kernel', 'root', 'ok', 'layers']);
  expect(told.layers[5]).toEqual({
    name: 'cgroup',
    available: false,
    required: false,
    detail: 'cgroup detail',
    fix: 'mend cgroup',
  });
});

test('colour is used at a terminal unless it is turned off', async () => {
  expect((await ask(machine(true), { isTTY: true })).text).toContain('\x1b[');
  expect((await ask(machine(true), { isTTY: true, noColor: true })).text).not.toContain('\x1b[');
  expect((await ask(machine(true))).text).not.toContain('\x1b[');
});

const wordy = {
  ...machine(false, 'cgroup', 'seccomp'),
  executable: `/opt/${'python/'.repeat(8)}python3`,
  executors: [
    {
      name: 'container',
      available: false,
      detail: 'no engine answered at any socket. '.repeat(4),
      fix: 'do it. '.repeat(20),
    },
  ],
  unknownVariables: [{ name: 'CELLA_MAX_KERNEL', meant: 'CELLA_MAX_KERNELS' }],
};

test.each([80, 60])('on a screen of %i columns, lines wrap between words, aligned with their text', async (columns) => {
  const whole = (await ask(wordy)).text;
  const { text } = await ask(wordy, { isTTY: true, columns, noColor: true });
  const lines = text.split('\n');
  const words = (all: string) => all.split(/\s+/);
  expect(words(text)).toEqual(words(whole));
  const tooLong = lines.filter((line) => line.length > columns);
  expect(tooLong.every((line) => line.trim().split(/ +/).length === 1)).toBe(true);
  const first = lines.findIndex((line) => line.includes('✗ container'));
  const rest = lines.slice(first + 1, lines.indexOf('', first));
  expect(rest.length).toBeGreaterThan(3);
  for (const line of rest) expect(line).toMatch(/^ {14}\S/);
});

test('a terminal without a size has 80 columns, colours take no room, and programs get whole lines', async () => {
  const at = (columns: number, noColor: boolean) => ask(wordy, { isTTY: true, columns, noColor });
  expect((await at(0, true)).text).toBe((await at(80, true)).text);
  expect(stripVTControlCharacters((await at(80, false)).text)).toBe((await at(80, true)).text);
  expect((await ask(wordy, { columns: 20 })).text).toContain(`${'do it. '.repeat(20)}\n`);
});

test('misspelt variables are reported, and do not fail the check', async () => {
  const unknownVariables = [{ name: 'CELLA_MAX_KERNEL', meant: 'CELLA_MAX_KERNELS' }];
  const { exitCode, text } = await ask({ ...machine(true), unknownVariables });
  expect(exitCode).toBe(0);
  expect(text).toContain('\nUnknown setting CELLA_MAX_KERNEL (ignored). Did you mean CELLA_MAX_KERNELS?\n');
  expect(JSON.parse((await ask({ ...machine(true), unknownVariables }, { json: true })).text)).toMatchObject({
    unknownVariables,
  });
});

test('the rights of members on a root server are reported, and do not fail the check', async () => {
  const warnings = ['--members-may folders: Treat every member as root here.'];
  const { exitCode, text } = await ask({ ...machine(true), warnings });
  expect({ exitCode, text }).toEqual({ exitCode: 0, text: expect.stringContaining(`\n${warnings[0]}\n`) });
  expect(JSON.parse((await ask({ ...machine(true), warnings }, { json: true })).text)).toMatchObject({
    ok: true,
    warnings,
  });
});
