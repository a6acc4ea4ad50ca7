import { expect, test } from 'vitest';
import { attempts } from '../support/kernels/attack-code.ts';
import type { Open } from '../support/kernels/session.ts';

export function systemCalls(open: Open): void {
  test('that could open a sandbox are refused by number, under every name', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
NEWUSER, NEWNS, NEWNET, NEWPID, SIGCHLD = 0x10000000, 0x20000, 0x40000000, 0x20000000, 17
path = b'/tmp\\0'
verdicts = {
    'mount': call('mount', b'tmpfs', b'/tmp', b'tmpfs', 0, 0), 'remount': call('mount', b'', b'/usr', b'', 32, 0),
    'umount': call('umount2', b'/proc', 2), 'pivot_root': call('pivot_root', b'/tmp', b'/tmp'),
    'chroot': call('chroot', b'/tmp'), 'open_tree': call('open_tree', -100, b'/', 1), 'fsopen': call('fsopen', b'tmpfs', 0),
    'move_mount': call('move_mount', -100, b'/tmp', -100, b'/tmp', 0), 'mount_setattr': call('mount_setattr', -100, b'/', 0, bytes(32), 32),
    'unshare user': call('unshare', NEWUSER), 'unshare mounts': call('unshare', NEWNS), 'unshare nothing': call('unshare', 0),
    'setns': call('setns', 0, 0), 'bpf': call('bpf', 0, bytes(128), 128), 'perf_event_open': call('perf_event_open', bytes(128), 0, -1, -1, 0),
    'io_uring_setup': call('io_uring_setup', 1, bytes(256)), 'keyctl': call('keyctl', 0, -3, 0), 'add_key': call('add_key', b'user', b'x', b'x', 1, -3),
    'userfaultfd': call('userfaultfd', 0), 'open_by_handle_at': call('open_by_handle_at', -100, bytes(128), 0),
    'reboot': call('reboot', 0xfee1dead, 672274793, 0, 0), 'kexec_load': call('kexec_load', 0, 0, 0, 0),
    'init_module': call('init_module', b'', 0, b''), 'swapon': call('swapon', b'/tmp', 0), 'sethostname': call('sethostname', b'x', 1),
    'personality': call('personality', 0x0040000), 'settimeofday': call('settimeofday', bytes(16), 0), 'fanotify_init': call('fanotify_init', 0, 0),
}
for name, flag in (('user', NEWUSER), ('mounts', NEWNS), ('network', NEWNET), ('processes', NEWPID), ('time', 0x80), ('cgroup', 0x02000000)):
    verdicts['clone into new ' + name] = call('clone', flag | SIGCHLD, 0, 0, 0, 0)
verdicts`,
    );
    expect(Object.entries(verdicts).filter(([, how]) => how !== 'EPERM')).toEqual([]);
  });

  test('whose flags are behind a pointer do not exist', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
{'clone3': call('clone3', struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88),
 'openat2': call('openat2', -100, b'made', struct.pack('3Q', 0o102, 0o4755, 0), 24)}`,
    );
    expect(verdicts).toEqual({ clone3: 'ENOSYS', openat2: 'ENOSYS' });
  });

  test('with x32 numbers are refused', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
{name: numbered(NUMBERS[name][COLUMN] | 0x40000000, 0x10000000) for name in ('unshare', 'getpid', 'mount', 'ptrace')} if COLUMN == 0 else {}`,
    );
    expect(Object.values(verdicts).filter((how) => how !== 'EPERM')).toEqual([]);
  });

  test('of 32-bit code end their process', async () => {
    const session = await open();
    // mov eax, 20 (getpid in i386); int 0x80; ret
    const result = await session.run(`
import ctypes, mmap, os, platform, signal
pid = os.fork()
if pid == 0:
    if platform.machine() != 'x86_64':
        os.kill(os.getpid(), signal.SIGSYS)
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('b814000000cd80c3'))
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)
os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSYS`);
    expect(result.value).toBe(true);
  });
}
