/** Code that finds the kernel's own connection and misuses it: that kernel is cut off, and only that kernel suffers. */

import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { encodeFrame, FrameType } from '../../../src/protocol/kernel-frames.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { inEnoughTime } from '../../support/kernels/enough-time.ts';
import { openSession } from '../../support/kernels/session.ts';
import { descendants, templatesOf } from '../../support/processes/processes.ts';

/** The connection's descriptor is found as any code could find it: the one stream, beside the gate to pid 1. */
const PRELUDE = `
import gc, marshal, os, signal, socket, stat, struct, sys, threading, time
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
def kind_of(fd):
    with socket.socket(fileno=os.dup(fd)) as copy:
        return copy.type
sockets = [fd for fd in range(256, 1024) if is_socket(fd)]
(control,) = [fd for fd in sockets if kind_of(fd) == socket.SOCK_STREAM]
(gate,) = [fd for fd in sockets if kind_of(fd) == socket.SOCK_SEQPACKET]
def frame(kind, number, payload=b''):
    return struct.pack('<IBI', len(payload), ord(kind), number) + payload
def send(data):
    while data:
        data = data[os.write(control, data):]
def pack(value):
    return marshal.dumps(value, 2)
forged = pack({'status': 'ok', 'repr': 'forged', 'value': 'forged', 'markers': (0, 0)})
def ask(number):
    return frame('c', number, pack(('input', {'execution': 2, 'prompt': '?', 'password': False, 'markers': (0, 0)})))
`;

/** Two sessions of one host: the second, with something in its memory, must not notice the first. */
async function pair(): Promise<{ session: Session; undisturbed: () => Promise<void> }> {
  const bystander = await openSession({ agentKey: 'bystander' });
  await bystander.run('kept = 41');
  const session = await openSession({ agentKey: 'attacker', graceMs: 300 });
  await session.run('kept = 1');
  const undisturbed = async () => {
    const result = await bystander.run('kept + 1');
    expect(result).toMatchObject({ status: 'ok', value: 42 });
    expect(result.recovered).toBeUndefined();
  };
  return { session, undisturbed };
}

/** Execution 2 is the attack. */
const attack = (session: Session, code: string, timeoutMs = 20_000) => session.run(PRELUDE + code, { timeoutMs });

describe('a kernel that breaks the protocol is ended', () => {
  test.each([
    ['garbage', String.raw`send(b'\xff' * 64)`, 'unknown type 255'],
    ['a huge length', "send(struct.pack('<IBI', 0xFFFFFFFF, ord('r'), 2))", '4294967295 bytes'],
    ['a byte too many', "send(struct.pack('<IBI', (64 << 20) + 1, ord('r'), 2))", '67108865 bytes'],
    ['an unknown type', "send(frame('z', 2))", 'unknown type 122'],
    [
      'a type that only a template sends',
      `send(frame('a', 0, b'{"out":"/etc/shadow","err":"/etc/shadow"}'))`,
      'out of place',
    ],
    ['a type that only a host sends', "send(frame('X', 3, bytes(32)))", 'unknown type 88'],
    ['a result for no execution', "send(frame('r', 999, forged))", 'a result for execution 999'],
    ['a result for an earlier execution', "send(frame('r', 1, forged))", 'a result for execution 1'],
    [
      'a display for an execution that is still to come',
      "send(frame('p', 3, pack({'data': {}, 'markers': (0, 0)})))",
      'a display for execution 3',
    ],
    [
      'a second hello',
      String.raw`send(frame('h', 0, pack({'python': '9', 'implementation': 'x', 'tag': b'\xff' * 16})))`,
      'a second hello',
    ],
    ['a hello without a tag', "send(frame('h', 0, pack({'python': '9', 'implementation': 'x'})))", 'wrong shape'],
    ['an unexpected answer', "send(frame('q', 1, pack({'value': 1})))", 'an unexpected answer'],
    ['a payload that is no value', String.raw`send(frame('r', 2, b'\x00\x01'))`, 'a value of the unknown type'],
    ['a list with a false count', String.raw`send(frame('r', 2, b'[\xff\xff\xff\x7f'))`, 'ends too early'],
    ['a value nested too deeply', String.raw`send(frame('r', 2, b'[\x01\0\0\0' * 100000 + b'N'))`, 'nested too deeply'],
    [
      'unknown fields',
      "send(frame('r', 2, pack({'status': 'ok', 'markers': (0, 0), '__proto__': {}})))",
      'wrong shape',
    ],
    ['fields of the wrong type', "send(frame('r', 2, pack({'status': 'ok', 'markers': (-1, 0)})))", 'wrong shape'],
    ['a call of the wrong shape', "send(frame('c', 7, pack(('open', '/etc/shadow'))))", 'wrong shape'],
    ['two calls with one number', 'send(ask(7) * 2)', 'a second call'],
    ['too many calls', "send(b''.join(ask(1000 + number) for number in range(300)))", 'too many calls'],
    ['endless nonsense', String.raw`while True: send(b'\0' * 4096)`, 'unknown type 0'],
    [
      'something on every descriptor',
      String.raw`
for fd in range(1024):
    try:
        os.write(fd, b'garbage\n' * 4)
    except OSError:
        pass`,
      'bytes; the limit',
    ],
    [
      'descriptors',
      "socket.send_fds(socket.socket(fileno=os.dup(control)), [frame('z', 1)], [0, 1, 2] * 50)",
      'unknown type',
    ],
  ])('%s', async (_name, code, words) => {
    const { session, undisturbed } = await pair();
    const result = await attack(session, `${code}\nsignal.pause()`);
    expect(result).toMatchObject({
      status: 'died',
      death: { code: 'KERNEL_PROTOCOL', message: expect.stringContaining(words) },
    });
    expect(await session.run('6 * 7')).toMatchObject({ value: 42, recovered: { cause: { code: 'KERNEL_PROTOCOL' } } });
    await undisturbed();
  });

  // It sits in the machinery of the kernel, which lies in its own memory. A save is made by a fork of it, which is cut off.
  test.each<[what: string, code: string, ask: (session: Session) => Promise<unknown>, after: object]>([
    [
      'a save',
      "sys.modules['cella_kernel.kernel.checkpoint_io'].save = lambda say, *rest: say(ord('w'), pack({'saved': [], 'lost': 5}))",
      (session) => session.save(),
      { value: 1 },
    ],
    [
      'a question for completions',
      "sys.modules['cella_kernel.kernel.kernel'].the_kernel._answer = lambda number, request: send(frame('q', number, pack({'error': 5})))",
      (session) => session.complete('ke'),
      { status: 'error', recovered: { cause: { code: 'KERNEL_PROTOCOL' } } },
    ],
  ])('by an answer in the wrong shape to %s', async (_what, code, ask, after) => {
    const { session, undisturbed } = await pair();
    expect(await attack(session, code)).toMatchObject({ status: 'ok' });
    const failure: unknown = await ask(session).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'KERNEL_PROTOCOL', message: expect.stringContaining('wrong shape') });
    expect(await session.run('kept')).toMatchObject(after);
    await undisturbed();
  });
});

test('tags that the code forges are text, or belong to an execution of its own', async () => {
  const session = await openSession();
  await session.run('first = 1');
  const background = session.background()[Symbol.asyncIterator]();
  const result = await session.run(`
import os, struct, sys
label = sys.stdout.tagged.tag
def forge(execution, text, length=None):
    os.write(1, label + struct.pack('<IH', execution, len(text) if length is None else length) + text)
forge(1, b'as the first')
forge(2, b'as itself;')
forge(3, b'as one to come;')
forge(0, b'as none;')
forge(1, b'too long;', 60000)
forge(1, b'never whole', 4000)`);
  expect((await background.next()).value).toEqual({ type: 'stdout', text: 'as the first', execution: 1 });
  expect(result.status).toBe('ok');
  expect(result.stdout).toMatch(/^as itself;as one to come;as none;.*too long;$/s);
  expect(await session.run('print("as ever")\n1')).toMatchObject({ status: 'ok', value: 1 });
});

test('text of a thread whose cell has ended follows the code’s redirection of the descriptor, without a tag', async () => {
  const session = await openSession();
  await session.run(
    [
      'import os, sys, threading',
      'asked, told = threading.Event(), threading.Event()',
      'def work():',
      '    asked.wait()',
      '    print("to the file", flush=True)',
      '    told.set()',
      'thread = threading.Thread(target=work)',
      'thread.start()',
    ].join('\n'),
  );
  const redirect = [
    'kept, file = os.dup(1), os.open("file", os.O_WRONLY | os.O_CREAT)',
    'os.dup2(file, 1)',
    'asked.set()',
    'told.wait()',
    'os.dup2(kept, 1)',
    'thread.join()',
    'open("file").read()',
  ].join('\n');
  expect(await session.run(redirect)).toMatchObject({ value: 'to the file\n', stdout: '' });
});

/** Sends until there is no room for long, and ends with 9; or until everything is sent, and ends with 7. */
const FLOOD = `
import select
def flood(pieces):
    with socket.socket(fileno=os.dup(control)) as way:
        for data in pieces:
            while data:
                if not select.select([], [way], [], 3)[1]:
                    os._exit(9)
                try:
                    data = data[way.send(data, socket.MSG_DONTWAIT):]
                except BlockingIOError:
                    pass
    os._exit(7)
def asking(call, numbers):
    for first in numbers[::20]:
        yield b''.join(frame('c', number, call) for number in range(first, first + 20))
`;

/** On a busy machine it takes this long until there is no room for anything more. */
const FULL_MS = 240_000;

describe('a kernel that sends more than it reads is paused, and the host keeps its memory', () => {
  test.each([
    [
      'calls whose replies it does not read',
      `
artifacts.save('wordy', b'', metadata={'words': 'x' * 60000})
flood(asking(pack(('artifacts.get', {'name': 'wordy'})), range(100000, 600000)))`,
    ],
    [
      'questions that are refused at once',
      `
question = pack(('input', {'execution': 1, 'prompt': 'x' * 4096, 'password': False, 'markers': (0, 0)}))
flood(asking(question, range(100000, 400000)))`,
    ],
    [
      'frames without a payload, behind one that waits',
      `
send(frame('p', 2, pack({'data': {}, 'markers': (10 ** 9, 0)})))
flood(frame('x', 1) * 1000 for _ in range(2000))`,
    ],
  ])('%s', { timeout: 2 * FULL_MS }, async (name, code) => {
    const { session, undisturbed } = await pair();
    const before = process.memoryUsage.rss();
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage.rss());
    }, 10);
    const result = await attack(session, FLOOD + code, FULL_MS);
    clearInterval(watch);
    // What waits behind a mark is heard when the mark is given up, and then there is room again.
    const ends = name.startsWith('frames') ? [7, 9] : [9];
    expect(result).toMatchObject({
      status: 'died',
      death: { exitCode: expect.toSatisfy((one) => ends.includes(one)) },
    });
    expect(most - before).toBeLessThan(600_000_000);
    await undisturbed();
  });
});

describe('a kernel that closes its connection has died', () => {
  test.each([
    [
      'half a frame, then death',
      "send(struct.pack('<IBI', 1000, ord('r'), 2) + b'x' * 10)\nos._exit(9)",
      { exitCode: 9 },
    ],
    [
      'half a header, then death',
      String.raw`send(b'\x01\x02')
os.kill(os.getpid(), signal.SIGKILL)`,
      { signal: 'SIGKILL' },
    ],
    ['it closes it', 'os.close(control)', {}],
    ['it closes it and goes on', 'os.close(control)\nsignal.pause()', { signal: 'SIGKILL' }],
    ['it shuts it down', 'socket.socket(fileno=os.dup(control)).shutdown(socket.SHUT_RDWR)\nsignal.pause()', {}],
    ['it shuts down one half', 'socket.socket(fileno=os.dup(control)).shutdown(socket.SHUT_WR)\nsignal.pause()', {}],
    ['it closes every descriptor', 'os.closerange(0, 4096)', {}],
    ['it puts another in its place', 'os.dup2(1, control)', {}],
    ['it becomes another program', "os.execv('/bin/sleep', ['sleep', '3600'])", { signal: 'SIGKILL' }],
    [
      'its children keep its output open',
      `
import subprocess
subprocess.Popen(['sleep', '3600'], start_new_session=True)
os._exit(5)`,
      { exitCode: 5 },
    ],
  ])('%s', async (_name, code, how) => {
    const { session, undisturbed } = await pair();
    const result = await attack(session, code);
    expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_DIED', ...how } });
    expect(await session.run('6 * 7')).toMatchObject({ value: 42, recovered: { cause: { code: 'KERNEL_DIED' } } });
    expect(descendants(session.pid)).toHaveLength(1);
    await undisturbed();
  });
});

describe('forging its own results affects only the code itself', () => {
  test('a forged result affects only its own cell; code that continues gets the timeout of the next cell', async () => {
    const { session, undisturbed } = await pair();
    const forged = await attack(session, "send(frame('r', 2, forged))\nwhile True: time.sleep(60)");
    expect(forged).toMatchObject({ status: 'ok', value: 'forged' });
    const next = await session.run('6 * 7', { timeoutMs: 1000 });
    expect(next.status).toBe('timeout');
    expect(next.death?.signal).toBe('SIGKILL');
    expect((await session.run('6 * 7')).value).toBe(42);
    await undisturbed();
  });

  test('two results for one execution: the second ends the kernel', async () => {
    const { session, undisturbed } = await pair();
    const forged = await attack(session, "send(frame('r', 2, forged))");
    expect(forged).toMatchObject({ status: 'ok', value: 'forged' });
    // Cells may still come through until the kill arrives; the first that does not says why.
    let told: string | undefined;
    for (let tries = 0; told === undefined && tries < 1000; tries++) {
      const next = await session.run('6 * 7');
      told = next.death?.code ?? next.recovered?.cause.code;
    }
    expect(told).toBe('KERNEL_PROTOCOL');
    expect((await session.run('6 * 7')).value).toBe(42);
    await undisturbed();
  });

  test('endless displays are stopped by the timeout', async () => {
    const { session, undisturbed } = await pair();
    const endless = attack(
      session,
      "one = frame('p', 2, pack({'data': {'text/plain': 'x' * 1000}, 'markers': (0, 0)}))\nwhile True: send(one)",
      1000,
    );
    await undisturbed();
    expect((await endless).status).toBe('timeout');
    expect((await session.run('6 * 7')).value).toBe(42);
  });

  test('frames that a thread steals are missing only in the kernel', async () => {
    const { session, undisturbed } = await pair();
    const thief = 'threading.Thread(target=lambda: os.read(control, 65536), daemon=True).start()';
    expect((await attack(session, thief)).status).toBe('ok');
    // The thread takes one frame, sooner or later; the cell that it belonged to meets its timeout.
    let robbed = 'ok';
    for (let tries = 0; robbed === 'ok' && tries < 1000; tries++) {
      robbed = (await session.run('6 * 7', { timeoutMs: 1000 })).status;
    }
    expect(robbed).not.toBe('ok');
    expect((await session.run('6 * 7')).value).toBe(42);
    await undisturbed();
  });

  test('forged markers on stdout delay only its own output, until the timeout', async () => {
    const { session, undisturbed } = await pair();
    const flood = `
(mark,) = {one._marker for one in gc.get_objects() if type(one).__name__ == 'Output'} or {sys.modules['cella_kernel.kernel.kernel'].the_kernel._output._marker}
os.write(1, b'before' + mark)
while True:
    os.write(1, b'x' * 65536)`;
    const flooded = (timeoutMs: number) => attack(session, flood, timeoutMs);
    const result = await inEnoughTime(1000, flooded, ({ stdout }) => stdout !== '');
    expect(result.status).toBe('timeout');
    expect(result.stdout).toMatch(/^before/);
    expect((await session.run("print('heard')")).stdout).toBe('heard\n');
    await undisturbed();
  });

  test('markers that the code swallows are not waited for', async () => {
    const { session, undisturbed } = await pair();
    const result = await attack(
      session,
      `
fd = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)
def swallow():
    while True:
        try:
            os.read(fd, 65536)
        except OSError:
            pass
threading.Thread(target=swallow, daemon=True).start()
print('x' * 300_000)`,
    );
    expect(result.status).toBe('ok');
    expect((await session.run('6 * 7')).value).toBe(42);
    await undisturbed();
  });

  test('descriptors 0 to 255 can be closed: output works in the next cell', async () => {
    const { session, undisturbed } = await pair();
    expect(await attack(session, 'os.closerange(0, 256)\n5')).toMatchObject({ status: 'ok', value: 5 });
    expect(await session.run("print('heard'); kept")).toMatchObject({ value: 1, stdout: 'heard\n' });
    await undisturbed();
  });
});

const POLICY = {
  ...{ uid: 20_000, gid: 20_000, network: 'none', readable: [], writable: [], env: {}, home: '/', cwd: '/' },
  limits: {
    ...{ memoryBytes: 2 ** 28, processes: 8, cpuSeconds: 10, fileBytes: 2 ** 20, openFiles: 576 },
    scratchBytes: 2 ** 20,
  },
};

test('connections to a template that break at once affect nobody', async () => {
  const { session, undisturbed } = await pair();
  const [template] = templatesOf(process.pid);
  for (let count = 0; count < 40; count++) {
    const socket = connect(join(template?.folder ?? '', 'template'));
    await once(socket, 'connect');
    socket.write(encodeFrame(FrameType.open, 0, JSON.stringify({ id: `broken-${count}`, policy: POLICY })));
    socket.destroy();
  }
  expect((await session.run('kept')).value).toBe(1);
  await undisturbed();
  // The sandboxes that nobody waits for end by themselves: two with a kernel each stay, the maker of networks, and one
  // that is begun ahead, where the template has had the time for it.
  await eventually(
    () => descendants(template?.pid ?? 0).length,
    (count) => count === 5 || count === 6,
    10_000,
  );
});
