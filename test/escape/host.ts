/** Ways to the host itself: its environment, its logs, its terminal and its processes. */

import { expect, onTestFinished, test } from 'vitest';
import { attempts, python, succeeded } from '../support/kernels/attack-code.ts';
import type { Open } from '../support/kernels/session.ts';
import { templatesOf } from '../support/processes/processes.ts';

export function hostItself(open: Open): void {
  test('its environment is visible neither to the code nor in any visible process', async () => {
    process.env.CELLA_TEST_SECRET = 'hush-hush';
    onTestFinished(() => {
      delete process.env.CELLA_TEST_SECRET;
    });
    const session = await open();
    const verdicts = await attempts(
      session,
      `
import subprocess
seen = [str(dict(os.environ)), subprocess.run(['env'], capture_output=True, text=True).stdout]
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline'):
        try:
            seen.append(repr(read('/proc/%s/%s' % (pid, name))))
        except OSError:
            pass
{'all': ' '.join(seen)}`,
    );
    expect(verdicts.all).not.toContain('hush-hush');
    expect(verdicts.all).toContain('LOGNAME');
  });

  test('kernel logs, keyrings and addresses are out of reach', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
{'kmsg': attempt(read, '/proc/kmsg'), 'device': attempt(read, '/dev/kmsg'), 'syslog': call('syslog', 3, 0, 0),
 'dmesg size': call('syslog', 10, 0, 0), 'kcore': attempt(read, '/proc/kcore'), 'mem': attempt(read, '/dev/mem'),
 'keyctl': call('keyctl', 0, -3, 0), 'iomem': 'done' if b'00100000' in read('/proc/iomem') else 'hidden'}`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });
}

export function terminalOfTheHost(open: Open): void {
  test('nothing can be typed into its terminal', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
import fcntl, termios
verdicts = {'controlling terminal': attempt(os.open, '/dev/tty', os.O_RDWR), 'console': attempt(os.open, '/dev/console', os.O_RDWR)}
for fd in (0, 1, 2, 256):
    verdicts['TIOCSTI %d' % fd] = attempt(fcntl.ioctl, fd, termios.TIOCSTI, b'x')
    verdicts['TIOCSCTTY %d' % fd] = attempt(fcntl.ioctl, fd, termios.TIOCSCTTY, 1)
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });
}

export function processesOfTheHost(open: Open): void {
  test('its processes cannot be seen, signalled, traced or read, and neither can pid 1', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
host = ${process.pid}
verdicts = {}
for name, pid in (('host', host), *(('template', pid) for pid in ${python(templatesOf(process.pid).map(({ pid }) => pid))}), ('pid 1 outside', ${session.pid})):
    verdicts[name + ' signal'] = attempt(os.kill, pid, 0) if pid != 1 else ''
    verdicts[name + ' proc'] = attempt(os.listdir, '/proc/%d' % pid)
    verdicts[name + ' limits'] = attempt(resource.prlimit, pid, resource.RLIMIT_CPU)
    verdicts[name + ' pidfd'] = call('pidfd_open', pid, 0)
for name in ('environ', 'mem', 'maps', 'fd', 'cwd', 'root', 'map_files', 'ns/mnt', 'stack', 'auxv', 'io'):
    path = '/proc/1/' + name
    verdicts[path] = attempt(os.listdir if name in ('fd', 'cwd', 'root', 'map_files') else read, path)
verdicts['open mem'] = attempt(os.open, '/proc/1/mem', os.O_RDWR)
verdicts['ptrace seize'] = call('ptrace', 0x4206, 1, 0, 0)
verdicts['ptrace attach'] = call('ptrace', 16, 1, 0, 0)
verdicts['process_vm_readv'] = call('process_vm_readv', 1, 0, 0, 0, 0, 0)
verdicts['kcmp'] = call('kcmp', 1, os.getpid(), 0, 0, 0)
verdicts['pidfd_getfd'] = call('pidfd_getfd', 0, 0, 0)
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
    expect(verdicts['ptrace attach']).toBe('EPERM');
    expect(verdicts.process_vm_readv).toBe('EPERM');
    const after = await attempts(
      session,
      `
verdicts = {}
import signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGINT, signal.SIGUSR1, signal.SIGSEGV):
    verdicts[number.name] = attempt(os.kill, 1, number)
verdicts['seen'] = str(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()))
verdicts`,
    );
    expect(after.seen).toMatch(/^\[1, \d+\]$/);
    expect((await session.run('1 + 1')).value).toBe(2);
  });
}
