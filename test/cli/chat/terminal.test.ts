/** `cella chat` in a real terminal: what a person sees, types, interrupts and leaves behind. */

import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Cella, launcher } from '../../support/cli/command.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { descendants, type Process, processes } from '../../support/processes/processes.ts';
import { Screen } from './screen.ts';

/** Each test has a data folder of its own. */
let cella: Cella;
beforeEach(() => {
  cella = new Cella();
});
afterEach(() => cella[Symbol.dispose]());

const GONE_MS = 30_000;
/** The prompt with nothing behind it, at the end of the screen. */
const PROMPT = /^chat>$(?![\s\S])/m;

const screens: Screen[] = [];
afterEach(() => Promise.all(screens.splice(0).map((screen) => screen[Symbol.asyncDispose]())));

async function open(...flags: string[]): Promise<Screen> {
  const env = { CELLA_DATA_DIR: cella.dataDir, TMPDIR: cella.temporary, PATH: process.env.PATH ?? '' };
  const python: Record<string, string> =
    process.env.CELLA_PYTHON === undefined ? {} : { CELLA_PYTHON: process.env.CELLA_PYTHON };
  const screen = new Screen([process.execPath, launcher, 'chat', ...flags], { ...env, ...python });
  screens.push(screen);
  await screen.shows(PROMPT);
  return screen;
}

/** Types a line, and resolves with what stands below it when the next prompt has come. */
async function say(screen: Screen, line: string): Promise<string> {
  const before = (await screen.text()).split('\n').length;
  await screen.type(line, 'Enter');
  const after = await screen.shows(PROMPT, before + 1);
  return after.split('\n').slice(before, -1).join('\n');
}

/** Of these processes, those that still run the same. */
const left = (before: readonly Process[]): Process[] =>
  processes().filter((one) => before.some(({ pid, command }) => pid === one.pid && command === one.command));

const agents = (): string[] => readdirSync(join(cella.dataDir, 'agents')).filter((name) => name.startsWith('chat-'));

describe('a chat at a terminal', () => {
  it('greets, and keeps definitions from line to line', async () => {
    const screen = await open();
    expect(await screen.text()).toMatch(/^Cella \d+\.\d+\.\d+, chat with "chat-\w{8}", deleted at the end\n/);
    expect(await say(screen, '/py x=123')).toBe('');
    expect(await say(screen, '/py print(x)')).toBe('123');
    expect(await say(screen, '/py f"{x} 日本 🎉"')).toBe("'123 日本 🎉'");
    await screen.type('', 'C-d');
    await screen.shows(/\[ended with 0\]/);
  });

  it('asks before a tool that requires approval, in a text that code can neither change nor follow with its own', async () => {
    const [tools, work] = [join(cella.temporary, 'tools'), join(cella.temporary, 'work')];
    for (const folder of [tools, work]) mkdirSync(folder);
    writeFileSync(join(tools, 'drop.yaml'), 'name: drop\ndescription: Drops\ncommand: echo\nrequires_approval: true\n');
    const screen = await open('--tools', tools, '--cwd', work);
    await say(screen, '/py import threading, time, os');
    await say(screen, '/py asks = threading.Thread(target=tools.drop)');
    await say(screen, '/py fake = "\\33[2J\\33[Hlook requires approval, and would do this:\\n  ls\\nAllow it? [y/N] "');
    // Once the question is on the screen, it puts another in its place.
    const wait = '[time.sleep(0.01) for _ in iter(lambda: os.path.exists("go"), True)]';
    await screen.type(`/py asks.start(); ${wait}; print(fake, end="", flush=True); open("told", "w"); asks.join()`);
    await screen.type('', 'Enter');
    const question = /drop requires approval, and would do this:\n {2}echo\nAllow it\? \[y\/N\]$/;
    await screen.shows(question);
    writeFileSync(join(work, 'go'), '');
    await eventually(() => existsSync(join(work, 'told')), Boolean, GONE_MS);
    expect(await screen.text()).toMatch(question);
    await screen.type('n', 'Enter');
    await screen.shows(/look requires approval/);
  });

  it('has its own variables, and resets no other chat', async () => {
    const [one, other] = await Promise.all([open(), open()]);
    await say(one, '/py x = 123');
    expect(await say(other, '/py "x" in globals()')).toBe('False');
    await say(other, '/py x = "other"');
    expect(await say(one, '/py reset')).toContain('All variables are gone');
    expect(await say(one, '/py "x" in globals()')).toBe('False');
    expect(await say(other, '/py x')).toBe("'other'");
  });

  it.each([
    ['/quit', '/quit', 'Enter'],
    ['Ctrl-D', '', 'C-d'],
  ])('leaves no process behind with %s', async (_how, text, key) => {
    const screen = await open('--auto-sh');
    await say(screen, '/sh sleep 3600 &');
    const pid = await screen.pid();
    const asleep = (all: Process[]) => all.some(({ command }) => command === 'sleep 3600');
    const before = await eventually(() => descendants(pid), asleep, GONE_MS);
    await screen.type(text, key);
    await screen.shows(/\[ended with 0\]/);
    expect(left(before)).toEqual([]);
    expect(agents()).toEqual([]);
  });

  it('leaves nothing behind when the terminal is closed', async () => {
    const screen = await open();
    await screen.type('/py while True: pass', 'Enter');
    const pid = await screen.pid();
    const before = processes().filter(
      (one) => one.pid === pid || descendants(pid).some((each) => each.pid === one.pid),
    );
    await screen.close();
    await eventually(
      () => left(before),
      (seen) => seen.length === 0,
      GONE_MS,
    );
    expect(agents()).toEqual([]);
  });

  it('leaves no process behind when it is killed', async () => {
    const screen = await open();
    await say(screen, '/py x = 1');
    const pid = await screen.pid();
    const before = descendants(pid);
    expect(before.length).toBeGreaterThan(2);
    process.kill(pid, 'SIGKILL');
    await screen.shows(/\[ended with 137\]/);
    await eventually(
      () => left(before),
      (seen) => seen.length === 0,
      GONE_MS,
    );
  });

  it('says how to continue with a named agent key', async () => {
    const agent = `ada ${randomUUID().slice(0, 8)}`;
    const first = await open('--key', agent);
    expect(await first.text()).toContain(`chat with "${agent}"\n`);
    await say(first, '/py x = 123');
    await first.type('/quit', 'Enter');
    await first.shows(new RegExp(`Variables are kept. Continue with cella chat --key '${agent}'`));
    await first.shows(/\[ended with 0\]/);
    expect(await say(await open('--key', agent), '/py x')).toBe('123');
  });
});

describe('editing', () => {
  it('completes commands, variables and checkpoints, and recalls lines', async () => {
    const screen = await open();
    await screen.type('/p', 'Tab');
    await screen.shows(/^chat> \/py$/m);
    expect(await say(screen, 'measure = 41')).toBe('');
    await screen.type('/py meas', 'Tab');
    await screen.shows(/^chat> \/py measure$/m);
    expect(await say(screen, ' + 1')).toBe('42');
    await say(screen, '/checkpoint before');
    await screen.type('/restore b', 'Tab');
    await screen.shows(/^chat> \/restore before$/m);
    expect(await say(screen, '')).toContain('Back at "before"');
    await screen.type('', 'Up', 'Up', 'Up');
    await screen.shows(/^chat> \/py measure \+ 1$(?![\s\S])/m);
    expect(await say(screen, '')).toBe('42');
  });

  it('reads blocks, and drops one on Ctrl-C', async () => {
    const screen = await open();
    await screen.type('/py def f(n):', 'Enter');
    await screen.shows(/^\.\.\.$(?![\s\S])/m);
    await screen.type('    return 2 * n', 'Enter', 'Enter');
    await screen.shows(PROMPT);
    expect(await say(screen, '/py f(21)')).toBe('42');
    await screen.type('/py', 'Enter');
    await screen.shows(/^\.\.\.$(?![\s\S])/m);
    await screen.type('f = None', 'Enter');
    await screen.shows(/^\.\.\. f = None\n\.\.\.$(?![\s\S])/m);
    await screen.type('', 'C-c');
    await screen.shows(/\^C\nchat>$/);
    expect(await say(screen, '/py f(1)')).toBe('2');
  });

  it('clears the line on Ctrl-C, and interrupts running code', async () => {
    const screen = await open();
    await screen.type('/py 1 / 0', 'C-c');
    await screen.shows(/^chat> \/py 1 \/ 0\^C\nchat>$/m);
    await screen.type('/py import time; print("busy"); time.sleep(3600)', 'Enter');
    await screen.shows(/^busy$/m);
    await screen.type('', 'C-c');
    await screen.shows(/KeyboardInterrupt\nchat>$/);
    expect(await say(screen, '/py "on"')).toBe("'on'");
  });

  it('completes and runs Python in any line with --auto-py', async () => {
    const screen = await open('--auto-py');
    expect(await say(screen, 'measure = 41')).toBe('');
    await screen.type('meas', 'Tab');
    await screen.shows(/^chat> measure$/m);
    expect(await say(screen, ' + 1')).toBe('42');
    await screen.type('exit', 'Enter');
    await screen.shows(/\[ended with 0\]/);
  });

  it('shows later output above the line being typed', async () => {
    const screen = await open('--auto-sh');
    await say(screen, '/sh (while [ ! -e go ]; do sleep 0.05; done; echo from behind) &');
    await say(screen, '/py 1');
    await screen.type('/py 40 + ');
    await screen.shows(/^chat> \/py 40 \+$/m);
    const folder = join(cella.dataDir, 'agents', agents()[0] ?? '', 'workspace');
    writeFileSync(join(folder, 'go'), '');
    await screen.shows(/^from behind\nchat> \/py 40 \+$/m);
    expect(await say(screen, '2')).toBe('42');
  });
});

describe('/sh at a terminal', () => {
  it('shows the command, and runs it only after confirmation', async () => {
    const screen = await open();
    await screen.type('/sh echo "hello  there"; cd /tmp', 'Enter');
    const asked = await screen.shows(/Run this in the sandbox\? \[y\/N\]$/);
    expect(asked).toContain('\n$ echo "hello  there"; cd /tmp\n');
    expect(await say(screen, 'y')).toBe('hello  there');
    expect(await say(screen, '/cwd')).toBe('/tmp');
    for (const answer of ['', 'n', 'yy']) {
      await screen.type('/sh echo never', 'Enter');
      await screen.shows(/\[y\/N\]$/);
      expect(await say(screen, answer)).toBe('Not run.');
    }
    await screen.type('/sh echo never', 'Enter');
    await screen.shows(/\[y\/N\]$/);
    await screen.type('', 'C-c');
    await screen.shows(/\^C\nNot run\.\nchat>$/);
  });

  it('is not confirmed by text that was pasted with it', async () => {
    const screen = await open();
    await screen.type('/sh echo never\ry\r/py "pasted"\r');
    await screen.shows(/\[y\/N\]$/);
    await screen.type('n', 'Enter');
    const text = await screen.shows(/^'pasted'\nchat>$/m);
    expect(text).toMatch(/\[y\/N\] n\nNot run\.\nchat> y\ncella: No coding agent/);
    expect(text).not.toMatch(/^never$/m);
  });

  it('shows all lines of a command', async () => {
    const screen = await open();
    await screen.type('/sh', 'Enter');
    await screen.shows(/^\.\.\.$(?![\s\S])/m);
    await screen.type('echo "one', 'Enter');
    await screen.type('two"', 'Enter', 'Enter');
    const asked = await screen.shows(/\[y\/N\]$/);
    expect(asked).toMatch(/\n\$ echo "one\n {2}two"\n/);
    expect(await say(screen, 'yes')).toBe('one\ntwo');
  });

  it('is interrupted by Ctrl-C, and killed if it ignores that', async () => {
    const screen = await open('--auto-sh');
    await screen.type('/sh echo busy; sleep 3600', 'Enter');
    await screen.shows(/^busy$/m);
    await screen.type('', 'C-c');
    await screen.shows(/\[ended by SIGINT\]\nchat>$/);
    await screen.type("/sh trap '' INT; echo stubborn; sleep 3600", 'Enter');
    await screen.shows(/^stubborn$/m);
    await screen.type('', 'C-c');
    await screen.shows(/\[ended by SIGKILL\]\nchat>$/);
    expect(await say(screen, '/py "on"')).toBe("'on'");
  });
});

it('shows this transcript', async () => {
  const screen = await open('--auto-sh');
  await say(screen, '/py text, number = "日本", 41');
  await say(screen, '/checkpoint before');
  await say(screen, '/py number += 1; other = number');
  await say(screen, '/vars');
  await say(screen, '/undo');
  await say(screen, '/sh echo in the shell; exit 3');
  await say(screen, '/py other');
  await say(screen, '/vasr');
  await say(screen, 'hello');
  const text = await screen.text();
  expect(text.split('\n').slice(1)).toEqual(
    `
/py CODE runs Python, /sh COMMAND a shell, in the sandbox. /help lists the rest.
Tab completes, Ctrl-C interrupts, Ctrl-D leaves.

chat> /py text, number = "日本", 41
chat> /checkpoint before
Checkpoint "before": /restore before goes back, as long as this kernel lives.
chat> /py number += 1; other = number
chat> /vars
NAME    TYPE  LENGTH      SIZE  VALUE
text    str        2  78 bytes  '日本'
number  int           28 bytes  42
other   int           28 bytes  42
chat> /undo
Undone: number += 1; other = number
number: 42 → 41, other is gone. Files stay.
chat> /sh echo in the shell; exit 3
in the shell
[exit code 3]
chat> /py other
Traceback (most recent call last):
  File "<cell 4>", line 1, in <module>
    other
NameError: name 'other' is not defined
chat> /vasr
cella: There is no command /vasr.
Did you mean /vars? /help lists them all.
chat> hello
cella: No coding agent is chosen.
Choose one with /agent claude, or run Python with /py CODE or --auto-py.
chat>`
      .split('\n')
      .slice(1),
  );
});
