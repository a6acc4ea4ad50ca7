import { expect, test } from 'vitest';
import { attempts, python, succeeded } from '../support/kernels/attack-code.ts';
import type { Open } from '../support/kernels/session.ts';

export function moreRights(open: Open, ofMemory: readonly string[]): void {
  test('no set-uid or set-gid file can be made', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
import shutil
shutil.copy('/usr/bin/env', 'env')
handle = os.open('env', os.O_RDONLY)
open_mode = lambda name, mode: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, mode))
verdicts = {
    'chmod u+s': attempt(os.chmod, 'env', 0o4755), 'chmod g+s': attempt(os.chmod, 'env', 0o2755),
    'fchmod': attempt(os.fchmod, handle, 0o4755), 'create': attempt(open_mode, 'created', 0o4755),
    'mknod': attempt(os.mknod, 'made', 0o4755 | stat.S_IFREG), 'fchmodat2': numbered(452, -100, b'env', 0o4755, 0),
    'unnamed': attempt(os.open, '.', os.O_TMPFILE | os.O_RDWR, 0o4755), 'capability': attempt(os.setxattr, 'env', 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000')),
}
attempt(os.mkdir, 'folder', 0o6777)
verdicts['left behind'] = 'done' if any(os.lstat(name).st_mode & 0o6000 for name in os.listdir('.')) else 'nothing'
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
    // Ordinary modes are free.
    expect((await session.run("import os; os.chmod('env', 0o700); oct(os.stat('env').st_mode)")).value).toBe(
      '0o100700',
    );
  });

  test('set-uid programs, capabilities and other ids give no rights', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
import subprocess
def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise PermissionError(errno.EPERM, done.stderr)
    return done.stdout
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
verdicts = {
    'su': attempt(run, 'su', '-c', 'id'), 'sudo': attempt(run, 'sudo', '-n', 'id'), 'mount': attempt(run, 'mount', '-t', 'tmpfs', 'none', '/tmp'),
    'setuid': attempt(os.setuid, 0), 'setgid': attempt(os.setgid, 0), 'setgroups': attempt(os.setgroups, [0]), 'setresuid': attempt(os.setresuid, 0, 0, 0),
    'capset': call('capset', struct.pack('II', 0x20080522, 0), struct.pack('6I', *[0xFFFFFFFF] * 6)), 'chown': (write('mine'), attempt(os.chown, 'mine', 0, 0))[1],
    'nice': attempt(os.setpriority, os.PRIO_PROCESS, 0, -10),
    'uid map': attempt(write, '/proc/self/uid_map', b'0 0 1'), 'any capability': 'none' if not any(int(status[name], 16) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')) else 'done',
    'new privileges': 'none' if status['NoNewPrivs'].strip() == '1' and status['Seccomp'].strip() == '2' else 'done',
    'root': 'done' if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()) else 'no',
}
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });

  test('limits cannot be raised', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
names = (*${python(ofMemory)}, 'RLIMIT_NPROC', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_NOFILE', 'RLIMIT_CORE')
def raise_limit(name):
    hard = resource.getrlimit(getattr(resource, name))[1]
    assert hard != resource.RLIM_INFINITY, name
    resource.setrlimit(getattr(resource, name), (hard, hard + 1))
{name: attempt(raise_limit, name) for name in names}`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });
}
