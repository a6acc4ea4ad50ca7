/** Code that uses up all it may, and code that speaks to pid 1 of its sandbox. */

import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { expect } from 'vitest';
import { descendants, templatesOf } from '../support/processes/processes.ts';
import { contained, everywhere, type Row, rootHost } from './row.ts';

const LIMITS = 'Code that uses up its limits does not affect others.';
const SUPERVISOR = 'Pid 1 of a sandbox survives anything that a kernel sends.';

/** Gives up by itself or is ended by its timeout; memory and processes are bounded by the group. */
const limits: Row[] = [
  contained(
    'forks endlessly',
    LIMITS,
    `
import os
while True:
    try:
        os.fork()
    except OSError:
        pass`,
    { stalls: false, ms: 3000 },
  ),
  contained(
    'uses up all memory in one process',
    LIMITS,
    `
blocks = []
while True:
    blocks.append(bytearray(b'x') * (64 << 20))`,
    { stalls: false, ms: 20_000, on: rootHost },
  ),
  contained(
    'uses up all memory in child processes',
    LIMITS,
    `
import os, signal
for _ in range(40):
    if os.fork() == 0:
        block = bytearray(b'x') * (256 << 20)
        signal.pause()
signal.pause()`,
    { stalls: false, ms: 8000, on: rootHost },
  ),
  contained(
    'uses up memory that belongs to no process: shared memory, memfd, pipes and sockets',
    LIMITS,
    `
import os, socket
held = []
for _ in range(200):
    try:
        fd = os.memfd_create('x')
        for _ in range(16):
            os.write(fd, bytes(1 << 20))
        held.append(fd)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        held += [reader, writer]
        while True:
            os.write(writer, bytes(65536))
    except (OSError, MemoryError):
        pass
for _ in range(200):
    try:
        one, two = socket.socketpair()
        one.setblocking(False)
        held += [one, two]
        while True:
            one.send(bytes(65536))
    except OSError:
        pass
len(held)`,
    { stalls: false, ms: 20_000, on: rootHost },
  ),
  contained(
    'fills /tmp and /dev/shm',
    LIMITS,
    `
import os
for folder in ('/tmp', '/dev/shm'):
    try:
        with open(folder + '/full', 'wb') as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass
for folder in ('/tmp', '/dev/shm'):
    try:
        os.remove(folder + '/full')
    except OSError:
        pass`,
    { ms: 20_000, stalls: false },
  ),
  contained(
    'computes endlessly and ignores signals',
    LIMITS,
    `
import signal, threading
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
def spin():
    while True: pass
for _ in range(8):
    threading.Thread(target=spin, daemon=True).start()
spin()`,
    { stalls: false, ms: 2000, quick: true },
  ),
  contained(
    'creates an enormous sparse file',
    LIMITS,
    `
try:
    with open('sparse', 'wb') as file:
        file.truncate(1 << 50)
except OSError as error:
    print(error)
`,
  ),
  contained(
    'creates 50,000 small files',
    LIMITS,
    `
import os
os.makedirs('many', exist_ok=True)
for number in range(50_000):
    open('many/%d' % number, 'w').close()`,
    { ms: 60_000, stalls: false },
  ),
  contained(
    'opens as many descriptors as possible, and passes them to itself',
    LIMITS,
    `
import os, socket
one, two = socket.socketpair()
held = []
try:
    while True:
        held.append(os.open('/dev/null', os.O_RDONLY))
except OSError:
    pass
for _ in range(1000):
    try:
        socket.send_fds(one, [b'x'], held[:200])
    except OSError:
        break
for fd in held:
    os.close(fd)
len(held)`,
  ),
];

/** A connection that the host must not take for one of its own. */
const supervisor: Row[] = [
  {
    name: 'sends deeply nested JSON to pid 1',
    promise: SUPERVISOR,
    on: everywhere,
    quick: true,
    attempt: async ({ mallory }) => {
      const session = await mallory.open();
      await mallory.value('import subprocess; child = subprocess.Popen(["sleep", "600"]); child.pid', { session });
      for (const text of [
        "b'[' * 100_000",
        'b\'{"a":\' * 20_000',
        "b'[' * 1000 + b']' * 1000",
        "b'9' * 60_000",
        String.raw`b'"\\ud800' * 9000`,
      ]) {
        const code = `
import os
try:
    os.write(261, ${text})
except OSError as error:
    print(error)`;
        await mallory.run(code, { session });
      }
      expect(await mallory.value('child.poll() is None', { session })).toBe(true);
    },
  },
  {
    name: 'sends descriptors, empty messages and endless messages to pid 1',
    promise: SUPERVISOR,
    on: everywhere,
    attempt: async ({ mallory }) => {
      const session = await mallory.open();
      await mallory.value('import subprocess; child = subprocess.Popen(["sleep", "600"]); child.pid', { session });
      const code = `
import os, socket
gate = socket.socket(fileno=os.dup(261))
gate.setblocking(False)
words = [b'', b'null', b'[]', b'{}', b'{"snapshot": -1}', b'{"kernel": 1e999}', b'{"what": "kernel", "pid": 1}', b'\\xff' * 100, b'{"__class__": {}}', b'0' * 200_000]
for word in words:
    for count in (0, 1, 2, 64):
        try:
            socket.send_fds(gate, [word], [0] * count)
        except OSError as error:
            pass
for _ in range(5000):
    try:
        gate.send(b'{}')
    except OSError:
        break`;
      await mallory.run(code, { session });
      expect(await mallory.value('child.poll() is None', { session })).toBe(true);
    },
  },
  {
    name: 'a local user connects to a template’s socket',
    promise: 'Only the server opens sandboxes.',
    on: ['subprocess', 'user'],
    attempt: async (world) => {
      const [template] = templatesOf(world.pid);
      const path = `${template?.folder ?? ''}/template`;
      const socket = connect(path);
      socket.on('error', () => {}); // refused is as good as cut off
      socket.end('garbage that is no frame at all');
      await new Promise((resolve) => socket.on('close', resolve));
    },
  },
];

const shares: Row[] = [
  {
    name: 'computes in 20 processes, each in its own Unix session',
    promise: 'A sandbox has one share of the processors, however many processes it starts.',
    on: ['subprocess'],
    stalls: false,
    attempt: async (world) => {
      const session = await world.mallory.open({ graceMs: 300 });
      const running = world.mallory.run(
        `
import os
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        while True: pass
print('ready', flush=True)
while True: pass`,
        { session, timeoutMs: 60_000 },
      );
      const groupsOf = () =>
        descendants(world.pid).flatMap(({ pid }) => {
          try {
            return [
              /^\d+:(?:[\w=]+,)*cpu(?:,[\w=]+)*:(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8'))?.[1] ?? '',
            ];
          } catch {
            return []; // it has ended
          }
        });
      const most = () =>
        Math.max(
          0,
          ...[...Map.groupBy(groupsOf(), (group) => group)].map(([group, all]) =>
            /cella-\d+\/\d+$/.test(group) ? all.length : 0,
          ),
        );
      // Only the machines of version 1 tell it this way; on version 2 one group holds all controllers.
      if (groupsOf().some((group) => group !== '')) await expect.poll(most).toBeGreaterThan(20);
      await world.mallory.call(`DELETE /v1/sessions/${session}`);
      await running;
    },
  },
];

export const limitRows: readonly Row[] = [...limits, ...shares, ...supervisor];
