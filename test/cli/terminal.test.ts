/** `cella` at a terminal: prompts, passwords, Ctrl-C and Ctrl-D, as keys and not as signals. */

import { spawn } from 'node:child_process';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { Cella, launcher, Started } from '../support/cli/command.ts';

const cella = new Cella();
afterAll(() => cella[Symbol.dispose]());

const CTRL_C = '\x03';
const CTRL_D = '\x04';
const CTRL_Z = '\x1a';
/** A shell that controls jobs, at a terminal of its own. */
function startShell(): Started {
  const terminal = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
  const env = { ...process.env, CELLA_DATA_DIR: cella.dataDir, TMPDIR: cella.temporary, TERM: 'xterm' };
  const child = spawn('python3', ['-c', terminal, 'bash', '--norc', '--noprofile', '-i'], { env });
  // With its terminal everything goes that was started there.
  onTestFinished(() => void child.kill('SIGKILL'));
  return new Started(child);
}

/** One that fails in the middle holds its agent no longer than its test. */
function start(...words: string[]): Started {
  const started = cella.start(words, { terminal: true });
  onTestFinished(async () => {
    started.child.kill('SIGKILL');
    await started.ended;
  });
  return started;
}

describe('cella run at a terminal', () => {
  it('asks for input() and shows the typed text', async () => {
    const started = start('run', '-c', 'input("name? ")');
    await started.says('name? ');
    started.type('Ada\r');
    expect(await started.ended).toBe(0);
    expect(started.out).toContain("'Ada'");
  });

  it('does not show a password', async () => {
    const started = start('run', '-c', 'import getpass; print(getpass.getpass("key: ").upper())');
    await started.says('key: ');
    started.type('secret\r');
    expect(await started.ended).toBe(0);
    expect(started.out).toContain('SECRET');
    expect(started.out).not.toContain('secret');
  });

  it('interrupts running code and a question', async () => {
    const busy = start('run', '-c', 'print("ready", flush=True)\nwhile True: pass');
    await busy.says('ready');
    busy.type(CTRL_C);
    expect(await busy.ended).toBe(130);
    const asking = start('run', '-c', 'input("name? ")');
    await asking.says('name? ');
    asking.type(CTRL_C);
    expect(await asking.ended).toBe(130);
    expect(asking.out).toContain('KeyboardInterrupt');
  });

  it('treats Ctrl-D as the end of the input', async () => {
    const started = start('run', '-c', 'input("name? ")');
    await started.says('name? ');
    started.type(CTRL_D);
    expect(await started.ended).toBe(1);
    expect(started.out).toContain('EOFError');
  });
});

describe('cella repl at a terminal', () => {
  it('greets, prompts, completes, interrupts and exits', async () => {
    const started = start('repl');
    await started.says('>>> ');
    // Where the start takes long, it says so first.
    expect(started.out).toMatch(/Cella \d+\.\d+\.\d+.*\r\n.*\r\n.*Ctrl-D leaves\.\r\n/);
    started.type('value = 41\r');
    await started.says('>>> ', 2);
    started.type('val\t');
    await started.says('value', 2);
    started.type(' + 1\r');
    await started.says('42\r\n');
    started.type('while True: print("busy", flush=True)\r\r');
    await started.says('busy\r\n');
    started.type(CTRL_C);
    await started.says('KeyboardInterrupt');
    started.type('"still " + "here"\r');
    await started.says("'still here'");
    started.type(CTRL_D);
    expect(await started.ended).toBe(0);
  });

  it('clears the line, and an unfinished block, on Ctrl-C', async () => {
    const started = start('repl');
    await started.says('>>> ');
    started.type('def f():\r');
    await started.says('... ');
    started.type(CTRL_C);
    await started.says('^C');
    started.type('"fresh".upper()\r');
    await started.says("'FRESH'");
    started.type(CTRL_D);
    expect(await started.ended).toBe(0);
  });

  it.each(['exit', 'exit()'])('leaves with %s', async (word) => {
    const started = start('repl');
    await started.says('>>> ');
    started.type(`${word}\r`);
    expect(await started.ended).toBe(0);
  });

  it('lets a shell stop it with Ctrl-Z, and continue it', async () => {
    const shell = startShell();
    shell.type("PS1='rea''dy '\r");
    await shell.says('ready ');
    shell.type(`${process.execPath} ${launcher} repl\r`);
    await shell.says('>>> ');
    shell.type('40 +');
    await shell.says('40 +');
    shell.type(CTRL_Z);
    await shell.says('Stopped');
    shell.type('fg\r');
    await shell.says('>>> 40 +');
    shell.type(' 2\r');
    await shell.says('42\r\n');
    shell.type(CTRL_D);
    await shell.says('ready ', 3);
    shell.type('exit 5\r');
    expect(await shell.ended).toBe(5);
  });

  it('shows later output of a thread above the line being typed', async () => {
    const started = start('repl');
    await started.says('>>> ');
    started.type('import threading; threading.Timer(0.3, lambda: print("from " + "behind")).start()\r');
    await started.says('from behind\r\n');
    started.type('1 + 1\r');
    await started.says('2\r\n');
    started.type(CTRL_D);
    expect(await started.ended).toBe(0);
  });
});
