/** Frozen forks and the gate to pid 1, in the hands of code that means ill: the session goes on, and others do not notice. */

import { describe, expect, test } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { openSession } from '../../support/kernels/session.ts';
import { evaluate, residents } from '../../support/kernels/state.ts';
import { isAlive } from '../../support/processes/processes.ts';

const root = process.getuid?.() === 0;
const NEVER = 3_600_000;
/** How long a session waits for a frozen fork that does not wake up, and some more. */
const BOUND_MS = 20_000;

const PRELUDE = `
import array, ctypes, json, os, signal, socket, stat, sys, threading, time
def kind_of(fd):
    with socket.socket(fileno=os.dup(fd)) as copy:
        return copy.type
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
(gate,) = [fd for fd in range(256, 1024) if is_socket(fd) and kind_of(fd) == socket.SOCK_SEQPACKET]
def say(word, descriptors=()):
    data = word if isinstance(word, bytes) else json.dumps(word).encode()
    with socket.socket(fileno=os.dup(gate)) as way:
        socket.send_fds(way, [data], list(descriptors))
def neighbours():
    """Every process of this sandbox but pid 1 and this one."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir('/proc'))) if pid not in (1, os.getpid())]
`;

/** A session with names, a save and a live checkpoint, and another one that must not notice anything. */
async function pair(options: object = {}): Promise<{ session: Session; undisturbed: () => Promise<void> }> {
  const bystander = await openSession({ agentKey: 'bystander' });
  await bystander.run('kept = 41');
  const session = await openSession({ agentKey: 'attacker', graceMs: 300, saveAfterMs: NEVER, ...options });
  await session.run('x = 1');
  await session.save();
  await session.checkpoint({ name: 'base' });
  const undisturbed = async () => {
    const result = await bystander.run('kept + 1');
    expect(result).toMatchObject({ status: 'ok', value: 42 });
    expect(result.recovered).toBeUndefined();
  };
  return { session, undisturbed };
}

/** It can run cells and go back, and ends when it is closed. */
async function goesOn(session: Session): Promise<void> {
  await session.run('1').catch(() => undefined); // what was done to it may show only here
  await session.reset();
  await session.run('y = 1');
  const dry = await session.run('y = 2', { transaction: 'rollback_always' });
  expect(dry).toMatchObject({ status: 'ok', transaction: 'rolled_back' });
  expect(await evaluate(session, 'y')).toBe(1);
  const { pid } = session;
  const before = performance.now();
  await session.close();
  expect(performance.now() - before).toBeLessThan(5000);
  await eventually(
    () => isAlive(pid),
    (alive) => !alive,
    5000,
  );
}

describe('messages on the registration socket that no kernel sends', () => {
  const words: [name: string, code: string][] = [
    ['garbage', String.raw`say(b'\xff' * 100); say(b''); say(b'x' * 4096)`],
    ['words that are too long', "say(b'[' + b'1,' * 40_000 + b'1]')"],
    ['words that are no objects', "for word in (None, 1, 'x', [], [1], True): say(word)"],
    ['unknown words', "for word in ({}, {'x': 1}, {'kill': 1}, {'snapshots': 1}): say(word)"],
    [
      'numbers that are none',
      "for number in (None, [], {}, 'x', '1', -1, 1.5, True, 10 ** 300, float('inf'), float('nan')):\n    say({'snapshot': number}); say({'kernel': number})",
    ],
    [
      'numbers that are none, with descriptors',
      "for number in (None, [], {}, 'x', '1', -1, 1.5, True, 10 ** 300, float('inf'), float('nan')):\n    one, two = socket.socketpair()\n    say({'snapshot': number}, [one.fileno()]); say({'kernel': number}, [one.fileno()])",
    ],
    ['a snapshot without a descriptor', "say({'snapshot': 4000})"],
    [
      'a snapshot whose way is no socket',
      "r, w = os.pipe()\nfor fd in (r, w, 0, os.open('/', os.O_RDONLY)): say({'snapshot': 4000}, [fd])",
    ],
    [
      'a snapshot whose way is another kind of socket',
      "for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n    one, two = socket.socketpair(socket.AF_UNIX, kind)\n    say({'snapshot': 4000 + kind}, [one.fileno()])\nsay({'snapshot': 4100}, [socket.socket().fileno()])",
    ],
    ['JSON that is nested too deeply', "say(b'[' * 4000); say(b'{\"snapshot\":' * 400)"],
    [
      'a snapshot with a number that no frame holds, which then ends',
      "one, two = socket.socketpair()\nif os.fork() == 0:\n    for number in (2**32, 2**40, 2**70): say({'snapshot': number}, [one.fileno(), two.fileno()])\n    os._exit(0)\nos.wait()",
    ],
    ['itself as a snapshot', "one, two = socket.socketpair()\nsay({'snapshot': 4000}, [one.fileno()])"],
    ['itself as a kernel', "for number in range(20): say({'kernel': number})"],
    [
      'itself as a snapshot that is there already',
      "one, two = socket.socketpair()\nsay({'snapshot': 1}, [one.fileno()]); say({'snapshot': 2}, [one.fileno()])",
    ],
    ['more descriptors than fit', 'say(b"x", [0] * 250); say({"snapshot": 4000}, [0] * 250)'],
    ['10,000 words', "for _ in range(10_000): say({'kernel': 7})"],
    ['10,000 words with descriptors', 'for _ in range(10_000): say({"nothing": 1}, [0, 1, 2])'],
    [
      'hundreds of snapshots',
      "for number in range(5000, 5300):\n    one, two = socket.socketpair()\n    say({'snapshot': number}, [one.fileno()])\n    one.close()",
    ],
    ['an endless stream of words, from another process', "if os.fork() == 0:\n    while True: say({'kernel': 7}, [0])"],
  ];

  test.each(words)(
    '%s',
    async (_name, code) => {
      const { session, undisturbed } = await pair();
      const result = await session.run(`${PRELUDE}\n${code}\n5`, { timeoutMs: 10_000 });
      // Code that says it is somebody who is there already may be ended for it.
      expect(['ok', 'died']).toContain(result.status);
      await undisturbed();
      // Back to the checkpoint, or told why not.
      await session.restore('base').catch((error) => expect(['CHECKPOINT_GONE', 'KERNEL_DIED']).toContain(error.code));
      await goesOn(session);
      await undisturbed();
    },
    60_000,
  );

  test('do not end the kernel if they are only nonsense', async () => {
    const { session } = await pair();
    const nonsense = words.slice(0, 11).map(([, code]) => code);
    for (const code of nonsense) expect(await session.run(`${PRELUDE}\n${code}\n5`)).toMatchObject({ value: 5 });
    const result = await session.run('x = 2; x');
    expect(result).toMatchObject({ status: 'ok', value: 2 });
    expect(result.recovered).toBeUndefined();
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
  }, 60_000);
});

describe('a process in place of the snapshot that its cell would go back to', () => {
  /** Kills the forks that are there, and says that it is each of them; `pair` makes the way to it. */
  const forge = (pair: string) => `${PRELUDE}
kernel, (reader, writer) = os.getpid(), os.pipe()
${pair}
if os.fork() == 0:
    os.setsid()
    victims = [pid for pid in neighbours() if pid != kernel]
    for pid in victims: os.kill(pid, signal.SIGKILL)
    while any(os.path.exists('/proc/%d' % pid) for pid in victims): time.sleep(0.001)
    kept = []
    for number in range(1, 9):
        way, told = pair(), socket.socketpair()
        say({'snapshot': number}, [way[0].fileno(), told[0].fileno()])
        assert told[1].recv(1) == b'+'
        kept.append(way)
    os.write(writer, b'x')
    while True: time.sleep(1000)
assert os.read(reader, 1) == b'x'
x = 3
raise ValueError`;
  const ways: [name: string, pair: string][] = [
    ['takes a connection and says nothing', 'pair = socket.socketpair'],
    [
      'takes nothing, not even a connection',
      `
def pair():
    one, two = socket.socketpair()
    for size in (65536, 1):
        try:
            while True: one.send(b'x' * size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
    return one, two`,
    ],
    [
      'has hung up',
      `
def pair():
    one, two = socket.socketpair()
    two.close()
    return one, one`,
    ],
  ];
  test.each(ways)(
    'and %s is waited for only until a timeout',
    async (_name, way) => {
      const { session, undisturbed } = await pair();
      await session.run('x = 2');
      const before = performance.now();
      const cell = session.run(forge(way), { transaction: 'rollback_on_failure', timeoutMs: 10_000 });
      await expect(cell).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
      expect(performance.now() - before).toBeLessThan(BOUND_MS);
      await undisturbed();
      expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
      await goesOn(session);
    },
    90_000,
  );
});

describe('code that attacks its snapshots', () => {
  const killAll = `${PRELUDE}\nfor pid in neighbours(): os.kill(pid, signal.SIGKILL)\n`;
  const stopAll = `${PRELUDE}\nfor pid in neighbours(): os.kill(pid, signal.SIGSTOP)\n`;

  test('by killing them loses its checkpoints, and gets an error', async () => {
    const { session, undisturbed } = await pair();
    await session.checkpoint({ name: 'second' });
    expect(await session.run(`${killAll}5`)).toMatchObject({ value: 5 });
    await expect
      .poll(async () => (await session.checkpoints()).filter(({ kind, gone }) => kind === 'live' && !gone))
      .toEqual([]);
    await expect(session.restore('base')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    expect(await evaluate(session, 'x')).toBe(1);
    await undisturbed();
    await goesOn(session);
  });

  test.each([
    ['fails', 'raise ValueError'],
    ['ends well', ''],
  ])('by killing the one that its own cell would go back to, and %s', async (_name, end) => {
    const { session, undisturbed } = await pair();
    await session.run('x = 2');
    const cell = session.run(`x = 3\n${killAll}${end}`, { transaction: 'rollback_on_failure' });
    if (end === '') {
      expect(await cell).toMatchObject({ status: 'ok', transaction: 'committed' });
      expect(await evaluate(session, 'x')).toBe(3);
    } else {
      await expect(cell).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
      // There is nothing left but the last save.
      expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
    }
    await undisturbed();
    await goesOn(session);
  });

  test('by killing the one of an explicit transaction cannot roll back, and gets an error', async () => {
    const { session, undisturbed } = await pair();
    await session.run(`x = 3\n${killAll}`, { transaction: 'explicit' });
    await expect
      .poll(() => session.rollback().catch((error) => error.code))
      .toMatch(/^(NO_TRANSACTION|CHECKPOINT_GONE)$/);
    expect(await session.run('x')).toMatchObject({ status: 'ok' });
    await undisturbed();
    await goesOn(session);
  });

  test('by stopping them can still be rolled back', async () => {
    const { session, undisturbed } = await pair();
    await session.run('x = 2');
    const stopped = await session.run(`x = 3\n${stopAll}raise ValueError`, { transaction: 'rollback_on_failure' });
    expect(stopped).toMatchObject({ status: 'error', transaction: 'rolled_back' });
    expect(await evaluate(session, 'x')).toBe(2);
    await session.run(stopAll);
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
    await undisturbed();
    await goesOn(session);
  });

  test('by stopping them next to another kernel is waited for only until a timeout', async () => {
    const { session, undisturbed } = await pair();
    const fork = await session.fork({ agentKey: 'beside' });
    await fork.run('x = 7');
    await session.run(`${PRELUDE}
mine = int(open('/proc/self/stat').read().split()[0])
for pid in neighbours():
    if open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[1] == '1' and pid != ${await evaluate(fork, '__import__("os").getpid()')}: os.kill(pid, signal.SIGSTOP)`);
    const before = performance.now();
    const back = await session.restore('base').catch((error) => error.code);
    expect(performance.now() - before).toBeLessThan(BOUND_MS);
    if (typeof back === 'string') expect(['CHECKPOINT_GONE', 'KERNEL_DIED']).toContain(back);
    expect(await evaluate(fork, 'x')).toBe(7);
    await undisturbed();
    await fork.close();
    await goesOn(session);
  }, 90_000);

  test('by keeping them from starting is waited for only until a timeout', async () => {
    const { session, undisturbed } = await pair();
    await session.run('import os, time\nos.setsid = lambda: time.sleep(1000)');
    await session.checkpoint({ name: 'hangs' });
    const before = performance.now();
    const back = await session.restore('hangs').catch((error) => error.code);
    expect(performance.now() - before).toBeLessThan(BOUND_MS);
    if (typeof back === 'string') expect(['CHECKPOINT_GONE', 'KERNEL_DIED']).toContain(back);
    await undisturbed();
    await goesOn(session);
  }, 90_000);

  test('by keeping them from starting does not delay saves, forks and transactions', async () => {
    const { session, undisturbed } = await pair();
    await session.run('import os, time\nos.setsid = lambda: time.sleep(1000)');
    const before = performance.now();
    await session.save().catch((error) => expect(error.code).toMatch(/^(KERNEL_DIED|SAVE_FAILED|CHECKPOINT_GONE)$/));
    await expect(session.fork({ agentKey: 'beside' })).rejects.toMatchObject({
      code: expect.stringMatching(/^(KERNEL_DIED|CHECKPOINT_GONE)$/),
    });
    expect(performance.now() - before).toBeLessThan(2 * BOUND_MS);
    await undisturbed();
    await goesOn(session);
  }, 90_000);

  test('by making more of them than a sandbox can have is refused before its cell runs', async () => {
    const first = await openSession({ saveAfterMs: NEVER, liveCheckpoints: 32, limits: { memoryMb: 4096 } });
    await first.run('x = 1');
    const sessions = [first];
    for (let n = 0; n < 5; n++) sessions.push(await first.fork({ agentKey: `fork ${n}` }));
    const [other = first, ...holders] = sessions.toReversed();
    const full = { code: 'FORK_UNSAFE', message: expect.stringContaining('too many') };
    let refused: unknown;
    for (const one of holders) {
      for (let n = 0; n < 32 && !refused; n++)
        refused = await one.checkpoint().then(
          () => undefined,
          (error) => error,
        );
    }
    expect(refused).toMatchObject(full);
    const cell = other.run('x = 2\nopen("ran", "w").close()\nraise ValueError', { transaction: 'rollback_on_failure' });
    await expect(cell).rejects.toMatchObject(full);
    expect(await evaluate(other, '[x, __import__("os").path.exists("ran")]')).toEqual([1, false]);
    for (const { id } of await first.checkpoints()) await first.deleteCheckpoint(id);
    for (const { id } of (await holders[0]?.checkpoints()) ?? []) await holders[0]?.deleteCheckpoint(id);
    expect(await other.run('x = 2', { transaction: 'rollback_always' })).toMatchObject({ transaction: 'rolled_back' });
    for (const one of sessions) await one.close();
  }, 60_000);
});

describe('a bomb in a transaction', () => {
  test('of processes is rolled back completely', async () => {
    const { session, undisturbed } = await pair({ limits: { processes: 48 } });
    const code = 'x = 2\nimport os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass';
    const bomb = session.run(code, { transaction: 'rollback_on_failure', timeoutMs: 1000 });
    await undisturbed();
    expect(await bomb).toMatchObject({ status: 'timeout', transaction: 'rolled_back' });
    expect(await evaluate(session, 'x')).toBe(1);
    // The kernel, and its checkpoint.
    await eventually(
      () => residents(session).length,
      (count) => count === 2,
      5000,
    );
    await session.restore('base');
    await goesOn(session);
  }, 60_000);

  test('of processes that leaves no room for a fork is reported, and a reset makes room', async () => {
    const { session, undisturbed } = await pair({ limits: { processes: 24 } });
    await session.run(
      'import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(1000)\n    except OSError: break',
    );
    await expect(session.run('x = 2', { transaction: 'rollback_always' })).rejects.toMatchObject({
      code: 'FORK_UNSAFE',
    });
    await undisturbed();
    await goesOn(session);
  });

  test('of memory is rolled back', async () => {
    const { session, undisturbed } = await pair({ limits: { memoryMb: 256 } });
    const code = 'x = 2\nblocks = []\nwhile True: blocks.append(bytearray(1 << 20))';
    const result = await session.run(code, { transaction: 'rollback_on_failure' });
    expect(result.transaction).toBe('rolled_back');
    expect(await evaluate(session, '[x, "blocks" in dir()]')).toEqual([1, false]);
    await undisturbed();
    await goesOn(session);
  });

  test.runIf(root)(
    'of memory that kills the kernel is rolled back, or the last save is restored',
    async () => {
      const { session, undisturbed } = await pair({ limits: { memoryMb: 160 } });
      for (let round = 0; round < 3; round++) {
        const hog = 'x = 2\nimport mmap\nm = mmap.mmap(-1, 1 << 30)\nfor at in range(0, len(m), 4096): m[at] = 1';
        const result = await session.run(hog, { transaction: 'rollback_on_failure' });
        expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_OUT_OF_MEMORY' } });
        const next = await session.run('x');
        expect(next).toMatchObject({ status: 'ok', value: 1 });
        expect(result.transaction === 'rolled_back' || next.recovered !== undefined).toBe(true);
      }
      await undisturbed();
      await goesOn(session);
    },
    60_000,
  );

  test.runIf(root)(
    'of /tmp, which is memory too, does not end the session',
    async () => {
      const { session, undisturbed } = await pair({ limits: { memoryMb: 160, scratchMb: 512 } });
      const code = "x = 2\nwith open('/tmp/full', 'wb') as file:\n    while True: file.write(bytes(1 << 20))";
      const result = await session.run(code, { transaction: 'rollback_on_failure' });
      expect(result.status).toBe('died');
      let next = await session.run('x');
      if (next.status === 'died') next = await session.run('x');
      expect(next).toMatchObject({ status: 'ok', value: 1 });
      await undisturbed();
      // What is in /tmp goes with the sandbox, and only with it.
      await session.restart();
      await goesOn(session);
    },
    60_000,
  );

  test('of checkpoints stays within its memory limit, and the kernel lives on', async () => {
    const { session, undisturbed } = await pair({ limits: { memoryMb: 400 }, liveCheckpoints: 32 });
    for (let n = 0; n < 14; n++) {
      await session.run(`block = bytearray(b"x" * (24 << 20)); x = ${n}`);
      await session.checkpoint();
    }
    const result = await session.run('x');
    expect(result).toMatchObject({ status: 'ok', value: 13 });
    expect(result.recovered).toBeUndefined();
    await undisturbed();
    await goesOn(session);
  }, 60_000);
});
