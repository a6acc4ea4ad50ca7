import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { doctor, type Machine, type Surroundings } from './doctor.ts';

const names = ['namespaces', 'userns', 'landlock', 'seccomp', 'uid', 'cgroup', 'rlimits'];

function machine(root: boolean, ...missing: string[]): Machine {
  const layers = names.map((name) => {
    const available = !missing.includes(name);
    return { name, available, detail: `${name} detail`, fix: available ? '' : `mend ${name}` };
  });
  return { python: '3.11.2', executable: '/usr/bin/python3', kernel: '6.1', root, layers };
}

async function ask(
  found: Machine & Partial<Surroundings>,
  options: { json?: boolean; noColor?: boolean; isTTY?: boolean } = {},
) {
  const out = Object.assign(new PassThrough(), { isTTY: options.isTTY ?? false });
  const exitCode = await doctor(found, { json: options.json ?? false, noColor: options.noColor ?? false }, out);
  return { exitCode, text: String(out.read()) };
}

test('a machine with everything can start kernels', async () => {
  const { exitCode, text } = await ask(machine(true));
  expect(exitCode).toBe(0);
  expect(text).toContain('✓ landlock    landlock detail\n');
  expect(text.endsWith('\nSandboxed kernels can start here.\n')).toBe(true);
});

test('what is missing is told with its fix', async () => {
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

test('a layer that is not told of counts as missing', async () => {
  const found = machine(false);
  const layers = found.layers.filter(({ name }) => name !== 'landlock');
  expect((await ask({ ...found, layers })).exitCode).toBe(1);
});

const others = [
  { name: 'container', available: false, detail: 'no engine was found', fix: 'start Docker' },
  { name: 'in-process', available: true, detail: 'Pyodide 1.2.3', fix: '' },
];

test('the executors are told, with what the others lack; those that nobody has chosen fail nothing', async () => {
  const { exitCode, text } = await ask({ ...machine(true), executors: others });
  expect(exitCode).toBe(0);
  expect(text).toContain('✓ subprocess  sandboxed processes, Python 3.11.2\n');
  expect(text).toContain('✗ container   no engine was found (not required)\n              start Docker\n');
  expect(text).toContain('✓ in-process  Pyodide 1.2.3\n');
  const lacking = await ask({ ...machine(true, 'seccomp'), executors: others });
  expect(lacking.exitCode).toBe(1);
  expect(lacking.text).toContain('✗ subprocess  needs what is missing above: seccomp\n');
});

test('a machine without a Python is told so, and which executors need none', async () => {
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

test('colour is for a terminal whose owner has not turned it off', async () => {
  expect((await ask(machine(true), { isTTY: true })).text).toContain('\x1b[');
  expect((await ask(machine(true), { isTTY: true, noColor: true })).text).not.toContain('\x1b[');
  expect((await ask(machine(true))).text).not.toContain('\x1b[');
});

test('variables that are misspelt are told, and fail nothing', async () => {
  const strayVariables = [{ name: 'CELLA_MAX_KERNEL', meant: 'CELLA_MAX_KERNELS' }];
  const { exitCode, text } = await ask({ ...machine(true), strayVariables });
  expect(exitCode).toBe(0);
  expect(text).toContain('\nCELLA_MAX_KERNEL is no setting, and does nothing. Did you mean CELLA_MAX_KERNELS?\n');
  expect(JSON.parse((await ask({ ...machine(true), strayVariables }, { json: true })).text)).toMatchObject({
    strayVariables,
  });
});
