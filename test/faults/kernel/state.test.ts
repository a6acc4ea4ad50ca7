/** Saving and loading where something is against it: hostile names, hostile data, a host that is killed, a full disk. */

import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { eventually, python } from '../../support/kernels/attack-code.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import {
  checkpointFolder,
  evaluate,
  readManifest,
  reasons,
  residents,
  type StoredManifest,
  storedCheckpoints,
  writeManifest,
} from '../../support/kernels/state.ts';
import { RemoteHost } from '../../support/kernels/state-hosts.ts';
import { isAlive } from '../../support/processes/processes.ts';

const root = process.getuid?.() === 0;
const NEVER = 3_600_000;

describe('variables that resist being saved affect only themselves', () => {
  const LIMIT_MS = 4000;
  const hostile: [name: string, body: string][] = [
    ['hang', 'while True: pass'],
    ['sleep', '__import__("time").sleep(1000)'],
    ['hang in C code', '__import__("collections").deque(__import__("itertools").repeat(0), maxlen=0)'],
    ['raise', 'raise ValueError("no")'],
    ['raise something that is no Exception', 'raise KeyboardInterrupt'],
    ['exit', 'raise SystemExit(0)'],
    ['take 10 GB', 'return (len, (bytearray(10 << 30),))'],
    ['take all memory, little by little', 'x = []\n        while True: x.append(bytearray(1 << 20))'],
    ['end the process', '__import__("os")._exit(0)'],
    ['kill the process', '__import__("os").kill(__import__("os").getpid(), 9)'],
    ['stop the process', '__import__("os").kill(__import__("os").getpid(), 19)'],
    ['crash', '__import__("ctypes").string_at(0)'],
    ['recurse without end', 'return self.__reduce__()'],
    ['close every descriptor', '__import__("os").closerange(0, 4096); return (int, ())'],
    ['fork without end', 'import os\n        for _ in range(20): os.fork()\n        while True: pass'],
    ['print without end', 'while True: print("x" * 10_000)'],
    ['grow without end', 'return (list, (), None, __import__("itertools").repeat(bytes(1000)))'],
    ['load only once', 'return (__import__("os")._exit, (3,))'],
    ['hang when they are loaded', 'return (__import__("time").sleep, (1000,))'],
    ['give nonsense', 'return 7'],
  ];

  test.each(hostile)(
    'those that %s',
    async (_name, body) => {
      const session = await openSession({
        saveAfterMs: NEVER,
        checkpointTimeoutMs: LIMIT_MS,
        limits: { processes: 64, memoryMb: 1024 },
      });
      await session.run(
        `class Bad:\n    def __reduce__(self):\n        ${body}\ngood = [1, 2]\nbad = [Bad()]\nalso = {"k": "v"}`,
      );
      const pid = await evaluate(session, '__import__("os").getpid()');
      const before = performance.now();
      const made = await session.checkpoint({ name: 'made', durable: true });
      expect(performance.now() - before).toBeLessThan(LIMIT_MS + 8000);
      expect(await evaluate(session, '[good, type(bad[0]).__name__, __import__("os").getpid()]')).toEqual([
        [1, 2],
        'Bad',
        pid,
      ]);
      expect(made).toMatchObject({ saved: expect.arrayContaining(['good', 'also']) });
      expect(Object.keys(reasons(made.lost))).toEqual(['bad']);
      expect(await session.restore('made')).toMatchObject({ restored: expect.arrayContaining(['good', 'also']) });
      expect(await evaluate(session, '[good, also, "bad" in dir()]')).toEqual([[1, 2], { k: 'v' }, false]);
      await eventually(
        () => residents(session).length,
        (count) => count === 1,
        10_000,
      );
    },
    60_000,
  );

  const spoilers: [name: string, body: string][] = [
    ['kill what is above it', '__import__("os").kill(__import__("os").getppid(), 9)'],
    [
      'write to every descriptor',
      'import os\n        for fd in range(600):\n            try: os.write(fd, b"garbage" * 50)\n            except OSError: pass\n        return (int, ())',
    ],
  ];
  test.each(spoilers)(
    'those that %s may fail the save with a reason, and never the kernel',
    async (_name, body) => {
      const session = await openSession({ saveAfterMs: NEVER, checkpointTimeoutMs: LIMIT_MS });
      await session.run(`class Bad:\n    def __reduce__(self):\n        ${body}\ngood = [1, 2]\nbad = [Bad()]`);
      const before = performance.now();
      const made = await session.checkpoint({ durable: true }).catch((error) => error);
      expect(performance.now() - before).toBeLessThan(LIMIT_MS + 8000);
      expect(made.saved ?? made.code).toEqual(made.saved ? expect.arrayContaining(['good']) : 'SAVE_FAILED');
      const result = await session.run('[good, len(bad)]');
      expect(result).toMatchObject({ status: 'ok', value: [[1, 2], 1] });
      expect(result.recovered).toBeUndefined();
    },
    60_000,
  );

  test('many of them do not use up the time of the others', async () => {
    const session = await openSession({ saveAfterMs: NEVER, checkpointTimeoutMs: LIMIT_MS });
    await session.run(
      'class Hang:\n    def __reduce__(self):\n        while True: pass\nbad = {}\nfor n in range(20): globals()["bad_%d" % n] = Hang(); globals()["good_%d" % n] = [n]',
    );
    const before = performance.now();
    const { saved, lost } = await session.checkpoint({ durable: true });
    expect(performance.now() - before).toBeLessThan(LIMIT_MS + 8000);
    expect(saved?.filter((name) => name.startsWith('good_'))).toHaveLength(20);
    expect(Object.keys(reasons(lost)).filter((name) => name.startsWith('bad_'))).toHaveLength(20);
  }, 60_000);

  test('do not prevent a session from closing, hibernating or opening again', async () => {
    const dataDir = await scratchFolder();
    const session = await openSession({ dataDir, saveAfterMs: NEVER, checkpointTimeoutMs: 2000 });
    await session.run('class Bad:\n    def __reduce__(self):\n        while True: pass\nbad = Bad()\ngood = 1');
    await session.hibernate();
    const { value, resumed } = await session.run('good');
    expect(value).toBe(1);
    expect(Object.keys(reasons(resumed?.lost))).toContain('bad');
    await session.run('bad = Bad(); good = 2');
    await session.close();
    const again = await openSession({ dataDir });
    expect(await evaluate(again, 'good')).toBe(2);
  }, 60_000);
});

describe('variables that end the kernel that loads them', () => {
  /** Loads well as long as nothing called `armed` lies in the workspace. */
  const armed = (act: string) =>
    `import os, time\ndef boom():\n    if os.path.exists("armed"): ${act}\n    return 1\nclass Bad:\n    def __reduce__(self): return (boom, ())\n`;

  test.each([
    ['end it', 'os._exit(3)'],
    ['crash it', '__import__("ctypes").string_at(0)'],
    ['hang in it', 'time.sleep(1000)'],
  ])(
    'and %s are passed over for an older save, and the agent goes on',
    async (_name, act) => {
      const dataDir = await scratchFolder();
      const options = { dataDir, saveAfterMs: NEVER, checkpointTimeoutMs: 2000 };
      const session = await openSession(options);
      await session.run('x = 1');
      await session.save();
      await session.run(`${armed(act)}bad = Bad(); x = 2`);
      await session.save();
      await session.run('open("armed", "w").close(); os._exit(1)');
      const result = await session.run('[x, "bad" in dir()]');
      expect(result).toMatchObject({ status: 'ok', value: [1, false], recovered: { cause: { exitCode: 1 } } });
      await session.close();
      const again = await openSession(options);
      expect(await evaluate(again, 'x')).toBe(1);
    },
    60_000,
  );

  test('in every save leave a kernel without variables, and the notice says why', async () => {
    const dataDir = await scratchFolder();
    const options = { dataDir, saveAfterMs: NEVER, checkpointTimeoutMs: 2000 };
    const session = await openSession(options);
    await session.run(`${armed('os._exit(3)')}bad = Bad(); x = 2`);
    await session.close();
    writeFileSync(join(session.cwd, 'armed'), '');
    const again = await openSession(options);
    const result = await again.run('["x" in dir(), 6 * 7]');
    expect(result).toMatchObject({ status: 'ok', value: [false, 42], resumed: { restored: [] } });
    expect(reasons(result.resumed?.lost).x).toEqual(expect.any(String));
  }, 60_000);
});

describe('saves with unreadable manifests', () => {
  test('leave an agent key without variables and with a notice, and are kept until they are deleted', async () => {
    const dataDir = await scratchFolder();
    const session = await openSession({ dataDir });
    await session.run('x = 1');
    await session.close();
    const [path = ''] = storedCheckpoints(dataDir);
    const id = basename(path);
    writeFileSync(join(path, 'manifest.json'), '{"format":1,');
    const again = await openSession({ dataDir });
    const first = await again.run('"x" in dir()');
    expect(first).toMatchObject({ value: false, resumed: { restored: [], lost: [{ name: '*' }] } });
    expect(first.resumed?.lost[0]?.reason).toContain(id);
    expect(first.resumed).not.toHaveProperty('savedAgoMs');
    expect(await again.run('1')).not.toHaveProperty('resumed');
    await expect(again.restore(id)).rejects.toMatchObject({ code: 'CHECKPOINT_DAMAGED', details: { id } });
    await again.deleteCheckpoint(id);
    await expect(again.restore(id)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
  });

  test('are also reported after a death', async () => {
    const dataDir = await scratchFolder();
    const session = await openSession({ dataDir, saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    for (const path of storedCheckpoints(dataDir)) writeFileSync(join(path, 'manifest.json'), '');
    await session.run('import os; os._exit(1)');
    expect(await session.run('2')).toMatchObject({ recovered: { restored: [], lost: [{ name: '*' }] } });
  });
});

test('a variable whose parts are all damaged is listed once', async () => {
  const dataDir = await scratchFolder();
  const session = await openSession({ dataDir });
  await session.run('kept = 5\nclass K: pass\ndef f(): return K\nk = K()');
  const { id } = await session.checkpoint({ name: 'made', durable: true });
  const path = join(checkpointFolder(dataDir), id);
  const chunk = readFileSync(join(path, '0000.chunk'));
  let start = 0;
  for (const { names, bytes } of readManifest(path).segments) {
    if (bytes > 0 && !names.includes('kept')) chunk[start] = (chunk[start] ?? 0) ^ 0xff;
    start += bytes;
  }
  writeFileSync(join(path, '0000.chunk'), chunk);
  const { lost = [] } = await session.restore('made');
  const names = lost.map(({ name }) => name);
  expect(names).toContain('K');
  expect(names).toEqual([...new Set(names)]);
});

describe('foreign data in a checkpoint', () => {
  /** A pickle that runs Python when it is loaded. */
  const pickleOf = (code: string): Buffer => {
    const text = Buffer.from(code);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([Buffer.from('\x80\x04cbuiltins\nexec\n(X', 'latin1'), length, text, Buffer.from('tR.')]);
  };

  /** Replaces the data of a checkpoint, so that nothing shows it: lengths, hashes and checksum fit. */
  function replace(path: string, data: Buffer, claims: Partial<StoredManifest['segments'][number]> = {}): void {
    const manifest = readManifest(path);
    const sha256 = createHash('sha256').update(data).digest('hex');
    manifest.segments = [{ kind: 'pickle', names: ['x'], portable: true, bytes: data.length, sha256, ...claims }];
    manifest.bytes = data.length;
    writeFileSync(join(path, '0000.chunk'), data);
    writeManifest(path, manifest);
  }

  async function prepare(): Promise<{ session: Session; path: string; dataDir: string }> {
    const dataDir = await scratchFolder();
    const session = await openSession({ dataDir, saveAfterMs: NEVER, checkpointTimeoutMs: 5000 });
    await session.run('x = 1');
    const { id } = await session.checkpoint({ name: 'made', durable: true });
    return { session, dataDir, path: join(checkpointFolder(dataDir), id) };
  }

  test('runs only inside the sandbox', async () => {
    const { session, path, dataDir } = await prepare();
    const other = await openSession({ dataDir, agentKey: 'other' });
    await other.run('open("secret", "w").write("of another agent")');
    const marker = join('/tmp', `cella-marker-${process.pid}-${Date.now()}`);
    const facts = { marker, host: process.pid, dataDir, secret: join(other.cwd, 'secret'), pid: other.pid };
    replace(
      path,
      pickleOf(`
import json, os, signal, socket
facts = ${python(facts)}
def attempt(action):
    try:
        return 'done: %.200r' % (action(),)
    except BaseException as error:
        return type(error).__name__
told = {
    'ran': 'yes',
    'marker': attempt(lambda: open(facts['marker'], 'w').write('x')),
    'shadow': attempt(lambda: open('/etc/shadow').read()),
    'kill': attempt(lambda: os.kill(facts['host'], signal.SIGKILL)),
    'kill the other': attempt(lambda: os.kill(facts['pid'], signal.SIGKILL)),
    'data folder': attempt(lambda: os.listdir(facts['dataDir'])),
    'secret': attempt(lambda: open(facts['secret']).read()),
    'network': attempt(lambda: socket.create_connection(('1.1.1.1', 53), 1)),
    'environment': str([name for name in os.environ if 'TOKEN' in name or 'KEY' in name]),
}
with open('told', 'w') as file: json.dump(told, file)
`),
    );
    const { restored } = await session.restore('made');
    expect(restored).toEqual(['x']);
    const told = JSON.parse((await evaluate(session, 'open("told").read()')) as string);
    expect(told.ran).toBe('yes');
    // In a /tmp of its own.
    expect(existsSync(marker)).toBe(false);
    const done = Object.entries(told).filter(([name, how]) => name !== 'marker' && String(how).startsWith('done'));
    expect(done).toEqual([]);
    expect(told.environment).toBe('[]');
    expect(await evaluate(other, 'open("secret").read()')).toBe('of another agent');
  });

  const hostile: [name: string, code: string][] = [
    ['ends the kernel', 'import os; os._exit(9)'],
    ['hangs', 'while True: pass'],
    ['takes all memory', 'x = []\nwhile True: x.append(bytearray(1 << 20))'],
    ['forks without end', 'import os\nwhile True:\n    try: os.fork()\n    except OSError: pass'],
    ['closes every descriptor', 'import os; os.closerange(0, 4096)'],
    ['writes to the connection', 'import os; os.write(256, b"\\xff" * 100)'],
    ['empties every module', 'import sys\nfor m in list(sys.modules.values()): vars(m).clear()'],
    ['raises', 'raise KeyboardInterrupt'],
  ];
  test.each(hostile)(
    'that %s ends that kernel, and the session continues',
    async (_name, code) => {
      const { session, path } = await prepare();
      replace(path, pickleOf(code));
      const before = performance.now();
      await session.restore('made').catch((error) => {
        expect(['KERNEL_DIED', 'KERNEL_PROTOCOL', 'KERNEL_OUT_OF_MEMORY']).toContain(error.code);
      });
      expect(performance.now() - before).toBeLessThan(15_000);
      await session.reset();
      expect(await evaluate(session, '6 * 7')).toBe(42);
    },
    60_000,
  );

  type Claims = Partial<StoredManifest['segments'][number]>;
  const many = Array.from({ length: 5000 }, (_, n) => `n${n}`);
  const shapes: [name: string, data: string, claims: Claims][] = [
    ['is no pickle', 'garbage', {}],
    ['is empty', '', {}],
    ['is a pickle without an end', '\x80\x04]\x94(K\x01', {}],
    ['asks for 2 GB', '\x80\x04B\xff\xff\xff\x7f', {}],
    ['says it is of an unknown kind', 'x', { kind: 'mystery' }],
    ['says it is a source', '{"source": 7}', { kind: 'source' }],
    ['says it is a folder', '["/etc", 7]', { kind: 'cwd' }],
    ['says it is random', 'zzz', { kind: 'random' }],
    ['has names that are none', 'N.', { names: ['', '\0', 'a b', '__name__', 'x'.repeat(5000)] }],
    ['has 5,000 names', 'N.', { names: many }],
    ['says it is longer than it is', 'N.', { bytes: 2 ** 40 }],
  ];
  test.each(shapes)('that %s is listed as lost, and the session continues', async (_name, data, claims) => {
    const { session, path } = await prepare();
    replace(path, Buffer.from(data, 'latin1'), claims);
    const how = await session.restore('made').catch((error) => error.code);
    if (typeof how === 'string') expect(how).toBe('CHECKPOINT_DAMAGED');
    else expect(how.restored).not.toContain('x');
    await session.reset();
    expect(await evaluate(session, '6 * 7')).toBe(42);
  });
});

describe('a host that is killed while it saves', () => {
  test('leaves the complete checkpoints, and nothing that looks like one', async () => {
    for (const [round, chunks] of [0, 1, 3].entries()) {
      const dataDir = await scratchFolder();
      const unfinished = join(dataDir, 'checkpoints', '.unfinished');
      await using host = new RemoteHost();
      await host.open({ dataDir, saveAfterMs: NEVER });
      await host.run(`import os\nround_ = ${round}`);
      await host.call('checkpoint', { name: `whole ${round}`, durable: true });
      await host.run('block = [os.urandom(8 << 20) for _ in range(6)]');
      const written = host.call('checkpoint', { name: `cut ${round}`, durable: true }).then(
        () => 'written',
        () => 'cut',
      );
      // Killed when so much of it lies on the disk.
      await eventually(
        () => listed(unfinished).flatMap((name) => listed(join(unfinished, name))).length,
        (count) => count > chunks,
        20_000,
      );
      await host.kill();
      expect(await written).toBe('cut');
      const session = await openSession({ dataDir, saveAfterMs: NEVER });
      const names = (await session.checkpoints()).filter(({ automatic }) => !automatic).map(({ name }) => name);
      expect(names).toEqual([`whole ${round}`]);
      expect((await session.restore(`whole ${round}`)).lost).toEqual([]);
      expect(await evaluate(session, 'round_')).toBe(round);
      expect(listed(unfinished)).toEqual([]);
      await session.close();
    }
  }, 60_000);

  test('at any time leaves the key free, with the last save', async () => {
    const dataDir = await scratchFolder();
    for (let round = 1; round <= 4; round++) {
      await using host = new RemoteHost();
      const { pid } = await host.open({ dataDir, saveAfterMs: NEVER });
      await host.run(`n = ${round}`);
      await host.call('save');
      await host.run('n = -1');
      await host.kill();
      const session = await openSession({ dataDir, saveAfterMs: NEVER });
      expect(await session.run('n')).toMatchObject({ value: round, resumed: { restored: ['n'] } });
      await eventually(
        () => isAlive(pid),
        (alive) => !alive,
        5000,
      );
      await session.close();
    }
  }, 60_000);
});

/** Runs in mounts of its own, which end with it; where this is no root host, as root of a user namespace. */
function withDisk(path: string, size: string): string[] {
  const namespace = root ? [] : ['--user', '--map-root-user'];
  const script = `mount -t tmpfs -o size=${size},mode=711 none '${path}'; exec "$@"`;
  return ['unshare', ...namespace, '--mount', 'sh', '-ec', script, 'sh'];
}

describe.runIf(root)('a disk that is full', () => {
  test('fails the save with STORAGE_FAILED, keeps the previous one, and the kernel continues', async () => {
    const dataDir = await scratchFolder();
    await using host = new RemoteHost(withDisk(dataDir, '12m'));
    await host.open({ dataDir, saveAfterMs: NEVER });
    await host.run('import os\nx = 1');
    await host.call('save');
    await host.run('x = 2; block = os.urandom(20 << 20)');
    const full = { code: 'STORAGE_FAILED', message: expect.stringContaining('full') };
    await expect(host.call('save')).rejects.toMatchObject(full);
    await expect(host.call('checkpoint', { name: 'large', durable: true })).rejects.toMatchObject(full);
    expect(await host.run('[x, len(block)]')).toMatchObject({ value: [2, 20 << 20] });
    await host.run('os._exit(1)');
    expect(await host.run('[x, "block" in dir()]')).toMatchObject({ value: [1, false], recovered: {} });
    await host.run('x = 3');
    await host.call('save');
    const listing = (await host.call('checkpoints')) as { name?: string; automatic: boolean }[];
    expect(listing.filter(({ automatic }) => !automatic)).toEqual([]);
    expect(listing.length).toBeGreaterThan(0);
  }, 60_000);

  test('is reported by close() and hibernate(), which end the kernel all the same', async () => {
    for (const end of ['close', 'hibernate'] as const) {
      const dataDir = await scratchFolder();
      await using host = new RemoteHost(withDisk(dataDir, '12m'));
      const { pid } = await host.open({ dataDir, saveAfterMs: NEVER });
      await host.run('import os\nx = 1');
      await host.call('save');
      await host.run('x = 2; block = os.urandom(20 << 20)');
      await expect(host.call(end)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
      if (end === 'hibernate') {
        // Nothing is lost: it stays awake, and can be put to sleep when there is room.
        expect(await host.run('x')).toMatchObject({ value: 2 });
        await host.run('del block');
        await host.call('hibernate');
        expect(await host.run('x')).toMatchObject({ value: 2, resumed: {} });
      } else {
        await eventually(
          () => isAlive(pid),
          (alive) => !alive,
          5000,
        );
        await host.open({ dataDir });
        expect(await host.run('x')).toMatchObject({ value: 1, resumed: {} });
      }
    }
  }, 60_000);

  test('does not prevent a session from opening and running', async () => {
    const dataDir = await scratchFolder();
    await using host = new RemoteHost(withDisk(dataDir, '6m'));
    await host.open({ dataDir, saveAfterMs: 0 });
    // Until nothing fits any more.
    const fill =
      'f = open("filler", "wb", buffering=0)\nsize = 1 << 16\nwhile size:\n    try: f.write(bytes(size))\n    except OSError: size >>= 1';
    expect(await host.run(`x = 1\n${fill}`)).toMatchObject({ status: 'ok' });
    expect(await host.run('x += 1; x')).toMatchObject({ status: 'ok', value: 2 });
    await expect(host.call('save')).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await host.run('x = 9', { transaction: 'rollback_always' })).toMatchObject({ transaction: 'rolled_back' });
    expect(await host.run('import os; f.close(); os.remove("filler"); x')).toMatchObject({ value: 2 });
    await host.call('save');
    await host.run('import os; os._exit(1)');
    expect(await host.run('x')).toMatchObject({ value: 2, recovered: {} });
  }, 60_000);
});

describe.runIf(root)('a disk that is full to the last byte', () => {
  test('does not keep the key locked after the session was closed, once there is room', async () => {
    const dataDir = await scratchFolder();
    await using host = new RemoteHost(withDisk(dataDir, '4m'));
    await host.open({ dataDir, agentKey: 'first' });
    await host.run('x = 1');
    await host.call('save');
    // Beside the storage, where the host sees it.
    const filler = join(`/proc/${host.pid}/root`, dataDir, 'filler');
    fill(filler);
    await expect(host.call('close')).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await expect(host.open({ dataDir, agentKey: 'first' })).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    rmSync(filler);
    await host.open({ dataDir, agentKey: 'first' });
    expect(await host.run('x')).toMatchObject({ value: 1 });
  }, 60_000);
});

/** Until not one byte more fits. */
function fill(path: string): void {
  const file = openSync(path, 'w');
  for (let size = 1 << 20; size > 0; ) {
    try {
      writeSync(file, Buffer.alloc(size));
    } catch {
      size >>= 1;
    }
  }
  closeSync(file);
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

test('a kernel that cannot read its saves starts with all of them when the storage works again', async () => {
  const dataDir = await scratchFolder();
  const session = await openSession({ dataDir, saveAfterMs: NEVER });
  await session.run('x = [1]');
  await session.hibernate();
  const folder = checkpointFolder(dataDir);
  const away = `${folder}.away`;
  renameSync(folder, away);
  writeFileSync(folder, '');
  for (let time = 0; time < 2; time++) {
    await expect(session.run('x')).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  }
  rmSync(folder);
  renameSync(away, folder);
  expect(await session.run('x')).toMatchObject({ value: [1], resumed: { restored: ['x'] } });
  await eventually(
    () => residents(session).length,
    (count) => count === 1,
    5000,
  );
});
