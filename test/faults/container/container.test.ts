/** What can befall containers from outside, and what code in one can try. */

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { shutdown } from '../../../src/index.ts';
import { Administrator } from '../../support/docker/containers.ts';
import { canRunDocker } from '../../support/docker/docker.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { openContainer } from '../../support/kernels/container.ts';
import { startHost, untilPrinted } from '../../support/kernels/host-processes.ts';
import { runUntilReady, scratchFolder } from '../../support/kernels/session.ts';

const admin = async () => await Administrator.of(await sharedEngineWithImage());

describe.skipIf(!canRunDocker)('a container that is', () => {
  test('killed recovers like a kernel, from the last save', async () => {
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir, saveAfterMs: 0 });
    await session.run('kept = [1, 2]');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    await (await (await admin()).only(dataDir)).kill();
    expect(await result).toMatchObject({ status: 'died', error: { name: 'KERNEL_DIED' } });
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
    expect(await (await admin()).containersOf(dataDir)).toHaveLength(1);
  });

  test('paused is killed when its cell does not stop, and recovers', async () => {
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir });
    await session.run('kept = 1');
    await session.save();
    const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
    await (await (await admin()).only(dataDir)).pause();
    // A timeout does the same; however long the engine takes to pause, this comes after it.
    await session.interrupt();
    expect(await result).toMatchObject({ status: 'interrupted', death: expect.anything() });
    expect(await session.run('kept')).toMatchObject({ status: 'ok', value: 1, recovered: expect.anything() });
  });

  test('paused and resumed continues', async () => {
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir });
    const code = 'print("ready", flush=True)\nimport time\ntime.sleep(0.2)\n"done"';
    const { result } = await runUntilReady(session, code);
    const container = await (await admin()).only(dataDir);
    await container.pause();
    await container.unpause();
    expect(await result).toMatchObject({ status: 'ok', value: 'done' });
  });

  test('out of memory says so, and the next cell runs in a fresh one', async () => {
    await using session = await openContainer({ limits: { memoryMb: 128 } });
    const hog =
      'import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 24)); held[-1].write(b"x" * (1 << 24))';
    expect(await session.run(hog)).toMatchObject({ status: 'died', error: { name: 'KERNEL_OUT_OF_MEMORY' } });
    expect(await session.run('1 + 1')).toMatchObject({ status: 'ok', value: 2 });
  });

  test('not ready in time is given up, and leaves nothing behind', async () => {
    const dataDir = await scratchFolder();
    await expect(openContainer({ dataDir, startTimeoutMs: 100 })).rejects.toMatchObject({
      code: 'CONTAINER_FAILED',
      message: expect.stringContaining('0.1 s'),
    });
    expect(await (await admin()).containersOf(dataDir)).toEqual([]);
  });

  test('closed leaves nothing behind, on the engine or in the data folder', async () => {
    const dataDir = await scratchFolder();
    const session = await openContainer({ dataDir });
    await session.run('1');
    expect(await (await admin()).containersOf(dataDir)).toHaveLength(1);
    await session.close();
    // Whoever closes a session does not wait for an engine that is busy.
    await expect.poll(async () => await (await admin()).containersOf(dataDir)).toEqual([]);
    const [holder = ''] = await readdir(join(dataDir, 'containers'));
    expect(await readdir(join(dataDir, 'containers', holder))).toEqual([]);
  });
});

describe.skipIf(!canRunDocker)('a host that is killed', () => {
  test('leaves no container running after the next start, and does not touch those of another data folder', async () => {
    const engine = await sharedEngineWithImage();
    const [dataDir, other] = [await scratchFolder(), await scratchFolder()];
    const plan = (folder: string) => ({
      sessions: [{ executor: 'container' as const, engine, dataDir: folder, agentKey: 'left' }],
      code: 'import subprocess\nsubprocess.Popen(["sleep", "1000"])\nprint("ready", flush=True)\nwhile True: pass',
    });
    const [killed, killedElsewhere] = [startHost(plan(dataDir)), startHost(plan(other))];
    await Promise.all([untilPrinted(killed, 'ready'), untilPrinted(killedElsewhere, 'ready')]);
    for (const host of [killed, killedElsewhere]) {
      const ended = once(host, 'exit');
      host.kill('SIGKILL');
      await ended;
    }
    const before = await (await admin()).containersOf(other);
    expect(before).toHaveLength(1);
    await using session = await openContainer({ dataDir, agentKey: 'next' });
    await session.run('1');
    expect(await (await admin()).containersOf(dataDir)).toHaveLength(1);
    expect((await (await admin()).containersOf(other)).map(({ Id }) => Id)).toEqual(before.map(({ Id }) => Id));
    expect(await readdir(join(dataDir, 'containers'))).toHaveLength(1);
    await using _ = await openContainer({ dataDir: other });
    expect(await (await admin()).containersOf(other)).toHaveLength(1);
  });

  test('a running host keeps its containers when another starts on the same data folder', async () => {
    const engine = await sharedEngineWithImage();
    const dataDir = await scratchFolder();
    const sessions = [{ executor: 'container' as const, engine, dataDir, agentKey: 'first' }];
    const host = startHost({ sessions, code: 'print("ready", flush=True)\nwhile True: pass' });
    await untilPrinted(host, 'ready');
    await using session = await openContainer({ dataDir, agentKey: 'second' });
    await session.run('1');
    expect(await (await admin()).containersOf(dataDir)).toHaveLength(2);
  });
});

describe.skipIf(!canRunDocker)('code in a container', () => {
  test('runs as its own user, without capabilities or new privileges, on a read-only root', async () => {
    await using session = await openContainer();
    const { value } = await session.run(`
import os
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
written = []
for folder in ("/", "/etc", "/usr", "/cella", "/cella/kernel", "/cella/connection", "/packages", "/dev", "/sys", "/proc/sys", "/run", "/var", "/var/tmp", "/tmp", "/dev/shm", os.getcwd()):
    try:
        open(folder + "/written", "w").close()
        written.append(folder)
    except OSError:
        pass
{"uid": os.getuid(), "caps": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
 "privs": status["NoNewPrivs"], "seccomp": status["Seccomp"], "written": written, "cwd": os.getcwd()}`);
    expect(value).toEqual({
      uid: expect.any(Number),
      caps: Array(5).fill('0000000000000000'),
      privs: '1',
      seccomp: '2',
      written: ['/tmp', '/dev/shm', '/agent/workspace'],
      cwd: '/agent/workspace',
    });
    expect((value as { uid: number }).uid).toBeGreaterThan(0);
  });

  test('has no network but its own loopback', async () => {
    await using session = await openContainer();
    expect(await session.run('import socket\n[name for _, name in socket.if_nameindex()]')).toMatchObject({
      value: ['lo'],
    });
  });

  test('finds no way to the host: no socket, no token, no descriptor, and pipes of nobody else', async () => {
    await using session = await openContainer();
    const { value } = await session.run(`
import os, socket, stat
folder = "/cella/connection"
kinds = sorted({stat.S_IFMT(os.lstat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder)})
connected = []
for path in [folder + "/host", *("/proc/1/fd/%d" % fd for fd in range(64))]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        connected.append(path)
    except OSError:
        pass
def refused(work):
    try:
        work()
        return False
    except OSError:
        return True
[kinds == [stat.S_IFIFO, stat.S_IFREG], connected, refused(lambda: os.listdir("/proc/1/fd")), refused(lambda: open("/proc/1/mem", "rb")),
 refused(lambda: open("/proc/1/environ", "rb").read()), "token" in os.listdir(folder)]`);
    expect(value).toEqual([true, [], true, true, true, false]);
  });

  test('finds no path of the host, and no secret in the container’s description', async () => {
    const dataDir = await scratchFolder();
    await using session = await openContainer({ dataDir });
    const { value } = await session.run('open("/proc/1/cmdline").read().split("\\0")');
    expect(JSON.stringify(value)).not.toContain(dataDir);
    const { Config } = await (await (await admin()).only(dataDir)).inspect();
    expect(Config.Cmd).toEqual([
      'container',
      expect.stringMatching(/^\{"folder":"\/cella\/connection","preload":\[\]\}$/),
    ]);
    expect(Config.Env.join('\n')).not.toMatch(/word|secret|token/i);
  });

  test('gets no more of the processors than its limit, with any number of processes', async () => {
    await using session = await openContainer({ limits: { cpus: 0.2 } });
    // Processor time that was had, in the time that passed; and what its control group allows.
    const { value } = await session.run(`
import os, time
pids = []
began, had = time.monotonic(), os.times()
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        until = time.monotonic() + 2
        while time.monotonic() < until: pass
        os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
share = (os.times().children_user - had.children_user) / (time.monotonic() - began)
def read(path):
    return open(path).read().split() if os.path.exists(path) else []
quota = read("/sys/fs/cgroup/cpu.max") or read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
[share, int(quota[0]) / int(quota[1])]`);
    const [share, allowed] = value as [number, number];
    expect(share).toBeLessThan(0.3);
    // A machine that is busy gives it less by itself, so that this alone shows who has kept it back.
    expect(allowed).toBeCloseTo(0.2);
  });

  test('writes to /dev/stdout and /dev/stderr as any program does', async () => {
    await using session = await openContainer();
    const result = await session.run('import os\nos.system("echo out > /dev/stdout; echo err > /dev/stderr")');
    expect(result).toMatchObject({ stdout: 'out\n', stderr: 'err\n' });
  });

  test('gets an error for a full disk, and lives on', async () => {
    const dataDir = await scratchFolder();
    spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=711', 'tmpfs', dataDir]);
    try {
      await using session = await openContainer({ dataDir });
      const { error } = await session.run('open("large", "wb").write(b"x" * (8 << 20))');
      expect(error).toMatchObject({ name: 'OSError', message: expect.stringContaining('No space left') });
      expect(await session.run('import os\nos.remove("large")\n1 + 1')).toMatchObject({ value: 2 });
    } finally {
      spawnSync('umount', ['-l', dataDir]);
    }
  });

  test('cannot get a folder that its user could not write to', async () => {
    const cwd = await scratchFolder();
    await expect(openContainer({ cwd })).rejects.toMatchObject({
      code: 'WORKSPACE_NOT_WRITABLE',
      message: expect.stringContaining('chmod o+rwx'),
    });
  });
});

describe.skipIf(!canRunDocker)('a host that shuts down', () => {
  test('ends the containers of open sessions', async () => {
    const dataDir = await scratchFolder();
    const session = await openContainer({ dataDir });
    await session.run('1');
    await shutdown();
    expect(await (await admin()).containersOf(dataDir)).toEqual([]);
    await expect(session.run('1')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  });
});
