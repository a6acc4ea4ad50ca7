/** Ways out of a sandbox, each tried from inside. The same suite runs on a root host and on an ordinary user's. */

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { CellaError } from '../../src/index.ts';
import { attempts, python, succeeded } from './attack.ts';
import { templatesOf } from './processes.ts';
import { type Open, scratchFolder } from './session.ts';

/** What each descriptor of the kernel is. */
const DESCRIPTORS = `
kinds = {}
for fd in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    path = os.readlink('/proc/self/fd/%d' % fd)
    null = stat.S_ISCHR(mode) and path.endswith('/null')
    kinds[str(fd)] = 'null' if null else 'pipe' if stat.S_ISFIFO(mode) else 'socket' if stat.S_ISSOCK(mode) else path
kinds`;

/**
 * What a program has no part in, whose names end with it and beside which a kernel lives, is tried by kernels alone.
 * `agent` is a program in an enclosure whose memory is bounded by what it uses, and not by a limit of each process.
 * `terminal` is a program on one: that is its own, and there is no other.
 * `container` is a kernel in one, and `contained agent` an agent: there is no template, and places of the system are the
 * image's own.
 */
export type Inmate = 'kernel' | 'program' | 'terminal' | 'agent' | 'container' | 'contained agent';

export function escapeAttempts(open: Open, what: Inmate = 'kernel'): void {
  const kernel = what === 'kernel' || what === 'container';
  const contained = what === 'container' || what === 'contained agent';
  const agent = what === 'agent' || what === 'contained agent';
  describe("the host's files", () => {
    filesOfTheHost(open, contained ? [] : ['/etc/hostname', '/run', '/sys']);
    if (kernel) descriptorsOfAKernel(open);
    else if (what === 'terminal') descriptorsOnATerminal(open);
    else descriptorsOfAProgram(open);
    if (what === 'kernel') descriptorsOfABusyTemplate(open);
  });
  describe('the host itself', () => {
    hostItself(open);
    if (what !== 'terminal') terminalOfTheHost(open);
    if (kernel) processesOfTheHost(open);
  });
  describe('sockets of the host', () => socketsOfTheHost(open));
  if (kernel) describe('another kernel', () => anotherKernel(open));
  describe('system calls', () => systemCalls(open));
  describe('more rights', () => moreRights(open, agent ? [] : ['RLIMIT_DATA']));
  if (what === 'contained agent') return;
  describe("Cella's own processes", () => {
    if (!contained) socketOfTheTemplate(open);
    if (!agent) foldersOfAPolicy(open);
    if (kernel) limitsOfPid1(open);
  });
}

function filesOfTheHost(open: Open, ofTheSystem: readonly string[]): void {
  test('are not there, whatever their mode, and not through links, /proc or leftover descriptors', async () => {
    const outside = await scratchFolder();
    await writeFile(join(outside, 'secret'), 'hush', { mode: 0o600 });
    await writeFile(join(outside, 'public'), 'hush', { mode: 0o644 });
    const session = await open();
    await symlink(join(outside, 'public'), join(session.cwd, 'link'));
    await symlink(outside, join(session.cwd, 'folder'));
    const verdicts = await attempts(
      session,
      `
outside = ${python(outside)}
paths = ['/etc/shadow', '/etc/sudoers', '/root/.bashrc', '/var/lib/dpkg/status', '/boot', '/.host', *${python(ofTheSystem)},
         outside, outside + '/secret', outside + '/public', 'link', 'folder/public', '/.own/../..' + outside + '/public']
for name in ('root', 'cwd', 'fd', 'task/1/root', 'task/1/cwd'):
    paths += ['/proc/%s/%s%s/public' % (pid, name, outside) for pid in (1, 'self', 'thread-self')]
verdicts = {path: attempt(os.listdir if os.path.isdir(path) else read, path) for path in paths}
os.chdir('/')
verdicts['parent of /'] = attempt(read, '../../../../..' + outside + '/public')
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });

  test("another agent's data folder is not there", async () => {
    const dataDir = await scratchFolder();
    const other = await open({ dataDir, agentKey: 'other' });
    expect((await other.run("open('kept', 'w').write('hush')")).status).toBe('ok');
    const session = await open({ dataDir, agentKey: 'curious' });
    const verdicts = await attempts(
      session,
      `
other, data = ${python(other.cwd)}, ${python(dataDir)}
{'file': attempt(read, other + '/kept'), 'folder': attempt(os.listdir, other), 'climb': attempt(read, '../../' + '/'.join(other.split('/')[-2:]) + '/kept'),
 'write': attempt(write, other + '/kept'), 'data': attempt(os.listdir, data), 'above': attempt(os.listdir, '../..' + data)}`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });

  test('nothing outside the workspace can be written, linked out of or replaced', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
targets = ['/usr/x', '/usr/bin/python3', '/etc/passwd', '/etc/x', '/x', '/dev/x', '/proc/sys/kernel/hostname',
           '/proc/sys/vm/overcommit_memory', '/proc/self/oom_score_adj', '/proc/sysrq-trigger', '/.own/passwd', '/bin/sh']
verdicts = {path: attempt(write, path) for path in targets}
verdicts['hard link out'] = attempt(os.link, '/usr/bin/env', 'env')
verdicts['hard link in'] = (write('mine'), attempt(os.link, 'mine', '/usr/mine'))[1]
verdicts['rename'] = attempt(os.rename, '/usr/bin/env', 'env')
verdicts['remove'] = attempt(os.remove, '/usr/bin/env')
verdicts['device'] = attempt(os.mknod, 'disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))
verdicts['memory device'] = attempt(os.mknod, '/tmp/mem', stat.S_IFCHR | 0o600, os.makedev(1, 1))
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });
}

function hostItself(open: Open): void {
  test("its environment is neither the code's nor any visible process's", async () => {
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

  test('kernel logs, keys and addresses stay closed', async () => {
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

function terminalOfTheHost(open: Open): void {
  test('its terminal cannot be typed into', async () => {
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

async function listening(server: Server, where: { port: number; host: string } | string): Promise<() => number> {
  let connections = 0;
  server.on('connection', (socket) => {
    connections++;
    socket.destroy();
  });
  server.listen(where);
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
  });
  return () => connections;
}

function socketsOfTheHost(open: Open): void {
  test('TCP, UDP, abstract and named Unix sockets are out of reach', async () => {
    const folder = await scratchFolder();
    const tcp = createServer();
    const addresses = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
    const name = `cella-test-${process.pid}-${Math.random()}`;
    const counts = [
      await listening(tcp, { port: 0, host: '0.0.0.0' }),
      await listening(createServer(), `\0${name}`),
      await listening(createServer(), join(folder, 'socket')),
    ];
    const udp = createSocket('udp4');
    udp.bind(0, '0.0.0.0');
    await once(udp, 'listening');
    onTestFinished(() => {
      udp.close();
    });
    const { port } = tcp.address() as AddressInfo;
    const session = await open();
    const verdicts = await attempts(
      session,
      `
verdicts = {}
for address in ${python(addresses)}:
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tcp:
        tcp.settimeout(2)
        verdicts['tcp ' + address] = attempt(tcp.connect, (address, ${port}))
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        attempt(udp.sendto, b'from the sandbox', (address, ${udp.address().port}))
for path in (b'\\0' + ${python(name)}.encode(), ${python(join(folder, 'socket'))}):
    with socket.socket(socket.AF_UNIX) as unix:
        verdicts['unix %r' % path] = attempt(unix.connect, path)
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
    tcp.settimeout(2)
    verdicts['a routed address'] = attempt(tcp.connect, ('192.0.2.1', 80))
verdicts['interfaces'] = str([name for _, name in socket.if_nameindex()])
verdicts`,
    );
    const { interfaces, ...connections } = verdicts;
    expect(succeeded(connections)).toEqual({});
    expect(connections['a routed address']).toBe('ENETUNREACH');
    expect(interfaces).toContain("'lo'");
    expect(counts.map((count) => count())).toEqual([0, 0, 0]);
    // Datagrams arrive in order: the first one to come is the host's own.
    const received = once(udp, 'message');
    udp.send('from the host', udp.address().port, '127.0.0.1');
    expect(String((await received)[0])).toBe('from the host');
  });

  test('families that no network namespace holds are refused', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
families = {'vsock': 40, 'packet': 17, 'alg': 38, 'bluetooth': 31, 'can': 29, 'tipc': 30, 'xdp': 44, 'key': 15, 'rds': 21}
verdicts = {name: attempt(lambda: socket.socket(family, socket.SOCK_DGRAM).close()) for name, family in families.items()}
verdicts.update(('pair of ' + name, attempt(lambda: [one.close() for one in socket.socketpair(family, socket.SOCK_DGRAM)])) for name, family in families.items())
verdicts['raw'] = attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
    expect(verdicts).toMatchObject({ vsock: 'EAFNOSUPPORT', packet: 'EAFNOSUPPORT', alg: 'EAFNOSUPPORT' });
  });

  test("loopback works between a kernel's own processes", async () => {
    const session = await open();
    const result = await session.run(`
import os, socket
server = socket.create_server(('127.0.0.1', 0))
if os.fork() == 0:
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(b'hello')
    os._exit(0)
connection, _ = server.accept()
connection.recv(16).decode()`);
    expect(result.value).toBe('hello');
  });
}

function anotherKernel(open: Open): void {
  test('its processes, scratch, shared memory and sockets cannot be seen', async () => {
    const one = await open({ agentKey: 'one' });
    const prepared = await one.run(`
import socket, subprocess, os
from multiprocessing import shared_memory
sleeper = subprocess.Popen(['sleep', '3600'])
open('/tmp/mine', 'w').write('hush')
open('/dev/shm/mine', 'w').write('hush')
memory = shared_memory.SharedMemory('cella-segment', create=True, size=64)
server = socket.socket(socket.AF_UNIX)
server.bind(b'\\0cella-test-abstract')
server.listen()
tcp = socket.create_server(('127.0.0.1', 0))
tcp.getsockname()[1], sleeper.pid`);
    const [port, pid] = prepared.value as [number, number];
    const two = await open({ agentKey: 'two' });
    const verdicts = await attempts(
      two,
      `
verdicts = {path: attempt(read, path) for path in ('/tmp/mine', '/dev/shm/mine', '/dev/shm/cella-segment', '/proc/${pid}/environ')}
with socket.socket(socket.AF_UNIX) as unix:
    verdicts['abstract'] = attempt(unix.connect, b'\\0cella-test-abstract')
with socket.socket() as tcp:
    verdicts['tcp'] = attempt(tcp.connect, ('127.0.0.1', ${port}))
verdicts['sleeper'] = str([pid for pid in os.listdir('/proc') if pid.isdigit() and b'sleep' in read('/proc/%s/cmdline' % pid)])
libc.shmget.restype = ctypes.c_int
verdicts['sysv'] = told(libc.shmget(0xCE11A, 64, 0o666))
verdicts['everyone'] = attempt(os.kill, -1, 9)
verdicts`,
    );
    const { sleeper, everyone, ...others } = verdicts;
    expect(succeeded(others)).toEqual({});
    expect(sleeper).toBe('[]');
    expect((await one.run('sleeper.poll()')).repr).toBeUndefined();
    expect((await two.run('1')).value).toBe(1);
  });
}

function systemCalls(open: Open): void {
  test('that open sandboxes are refused by number, under every name', async () => {
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

  test('whose flags lie behind a pointer do not exist', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
{'clone3': call('clone3', struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88),
 'openat2': call('openat2', -100, b'made', struct.pack('3Q', 0o102, 0o4755, 0), 24)}`,
    );
    expect(verdicts).toEqual({ clone3: 'ENOSYS', openat2: 'ENOSYS' });
  });

  test('in the numbers of x32 are refused', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
{name: numbered(NUMBERS[name][COLUMN] | 0x40000000, 0x10000000) for name in ('unshare', 'getpid', 'mount', 'ptrace')} if COLUMN == 0 else {}`,
    );
    expect(Object.values(verdicts).filter((how) => how !== 'EPERM')).toEqual([]);
  });

  test('of 32-bit code end the process that makes them', async () => {
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

function moreRights(open: Open, ofMemory: readonly string[]): void {
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

  test('set-uid programs, capabilities and other ids give nothing', async () => {
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

function socketOfTheTemplate(open: Open): void {
  test("the template's socket answers no one but the host, even where a workspace holds it", async () => {
    await open();
    const [template] = templatesOf(process.pid);
    const session = await open({ cwd: template?.folder ?? '' });
    const verdicts = await attempts(
      session,
      `
body = b'{"id": "mine", "network": "host"}'
def start():
    with socket.socket(socket.AF_UNIX) as template:
        template.settimeout(10)
        template.connect('template')
        template.sendall(struct.pack('<IBI', len(body), ord('O'), 0) + body)
        return template.recv(100) or 'nothing'
answer = attempt(start)
{'there': str(os.path.exists('template')), 'answer': answer}`,
    );
    expect(verdicts.there).toBe('True');
    expect(['ECONNRESET', 'EPIPE', "done: 'nothing'"]).toContain(verdicts.answer);
    expect((await (await open()).run('1')).value).toBe(1);
  });
}

function foldersOfAPolicy(open: Open): void {
  test('places of the system cannot be named as folders', async () => {
    for (const cwd of ['/', '/tmp', '/dev/shm', '/proc/self', '/sys/fs', '/usr', '/etc']) {
      await expect(open({ cwd }), cwd).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    const dataDir = await scratchFolder();
    await mkdir(join(dataDir, 'data'));
    await expect(open({ dataDir: join(dataDir, 'data'), cwd: dataDir })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
    });
  });

  test('more folders than a policy may name are refused, and not waited for', async () => {
    const folder = await scratchFolder();
    const readable = Array.from({ length: 260 }, (_, index) => join(folder, String(index)));
    await Promise.all(readable.map((path) => mkdir(path)));
    await expect(open({ sandbox: { readable } })).rejects.toMatchObject({
      message: expect.stringContaining('folders'),
    });
    const session = await open({ sandbox: { readable: readable.slice(0, 64) } });
    expect((await session.run(`len(__import__('os').listdir(${python(folder)}))`)).value).toBe(64);
  });
}

function descriptorsOfAKernel(open: Open): void {
  test('no descriptor of the kernel leads to a file or folder of the host', async () => {
    const kinds = Object.values(await attempts(await open(), DESCRIPTORS));
    expect(kinds.filter((kind) => !['null', 'pipe', 'socket'].includes(kind))).toEqual([]);
    // Its connection, and the gate where it tells pid 1 of its forks.
    expect(kinds.filter((kind) => kind === 'socket')).toHaveLength(2);
  });
}

function descriptorsOfABusyTemplate(open: Open): void {
  test('a kernel of a busy template has no descriptor of the process that made it', async () => {
    const first = await attempts(await open(), DESCRIPTORS);
    const [template] = templatesOf(process.pid);
    const busy = Array.from({ length: 300 }, () => connect(join(template?.folder ?? '', 'template')));
    onTestFinished(() => {
      for (const socket of busy) socket.destroy();
    });
    await Promise.all(busy.map((socket) => once(socket, 'connect')));
    expect(await attempts(await open(), DESCRIPTORS)).toEqual(first);
  });
}

function descriptorsOfAProgram(open: Open): void {
  test('a program has its three standard descriptors, and no other', async () => {
    expect(await attempts(await open(), DESCRIPTORS)).toEqual({ 0: 'null', 1: 'pipe', 2: 'pipe' });
  });
}

function descriptorsOnATerminal(open: Open): void {
  test('a program on a terminal has its three standard descriptors, and sees no other terminal', async () => {
    const session = await open();
    const all = { 0: '/dev/pts/0', 1: '/dev/pts/0', 2: '/dev/pts/0' };
    expect(await attempts(session, DESCRIPTORS)).toEqual(all);
    expect(await attempts(session, "sorted(os.listdir('/dev/pts'))")).toEqual(['0', 'ptmx']);
    expect(succeeded(await attempts(session, "{'console': attempt(os.open, '/dev/console', os.O_RDWR)}"))).toEqual({});
  });
}

function processesOfTheHost(open: Open): void {
  test('its processes cannot be seen, signalled, traced or read, nor can pid 1', async () => {
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

function limitsOfPid1(open: Open): void {
  test('limits that the code sets for pid 1 cost it its own sandbox, and no more', async () => {
    const other = await open();
    const session = await open();
    const result = await session.run(`
import os, resource
resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
os._exit(3)`);
    expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_DIED' } });
    // Where that pid 1 is asked for another kernel before it ends, it can only say that it has none.
    await session.run('1').catch((error) => expect(error).toBeInstanceOf(CellaError));
    expect((await session.run('1')).value).toBe(1);
    expect((await other.run('1')).value).toBe(1);
    expect(await readFile('/proc/self/limits', 'utf8')).toContain('Max open files');
  });
}
