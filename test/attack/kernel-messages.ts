/** What a kernel says to the server: values, displays, output, saves and forged frames. All of it is hostile. */

import { once as first } from 'node:events';
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import { INSTEAD_OF_SAVING } from '../support/kernels/hostile-saves.ts';
import { contained, everywhere, once, type Row } from './row.ts';
import type { World } from './world.ts';

const HELD = 'The memory that a kernel can make the server use is limited.';
const STALL = 'Nothing that a kernel sends blocks the server for others.';
const CUT = 'A kernel that breaks the protocol is ended, and nobody else is affected.';

/** Code of a cell in a session of its own, so that what it breaks is over with it. */
function alone(name: string, promise: string, code: string, options: Partial<Row> & { ms?: number } = {}): Row {
  const { ms = 60_000, ...rest } = options;
  return {
    name,
    promise,
    on: everywhere,
    ...rest,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      await mallory.run(code, { session, timeoutMs: ms });
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  };
}

/** A save in place of the kernel's own: `parts()` gives the payloads. */
const saving = (parts: string, names = 'lost, saved = [], []') =>
  `${INSTEAD_OF_SAVING}\n${names}\ndef parts():\n${indented(parts)}\ninstead_of_saving(parts, lost, saved)`;

const indented = (code: string) =>
  code
    .trim()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');

/** Its kernel, or the copy that is saved from, is cut off: nothing of it is stored. */
function cutOff(name: string, promise: string, code: string, options: Partial<Row> = {}): Row {
  return {
    name,
    promise,
    on: everywhere,
    ...options,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      await mallory.value(code, { session, timeoutMs: 60_000 });
      const saved = await mallory.call(`POST /v1/sessions/${session}/save`);
      expect([saved.status, saved.json?.error?.code ?? saved.text]).toEqual([500, 'KERNEL_PROTOCOL']);
      const kept = await mallory.call(`GET /v1/sessions/${session}/checkpoints`);
      expect(kept.json).toEqual({ checkpoints: [] });
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  };
}

const saves: Row[] = [
  cutOff(
    'saves parts with headers of 9 MiB of names',
    HELD,
    saving("for number in range(200): yield part(['%d' % number + 'x' * ((9 << 20) - 1000)])"),
    { quick: true, on: ['subprocess', 'user'] },
  ),
  cutOff('saves a million empty parts', HELD, saving("for _ in range(300_000): yield part(['x'])"), {
    on: ['subprocess', 'user'],
  }),
  cutOff(
    'saves hundreds of thousands of names, and lost ones with long reasons',
    HELD,
    saving(
      'yield part([])',
      "saved = [str(n) for n in range(200_000)]\nlost = [{'name': name, 'reason': 'x' * 200} for name in saved]",
    ),
  ),
  cutOff(
    'saves lost names with long reasons, as many as fit into a frame',
    HELD,
    saving('yield part([])', "saved, lost = [], [{'name': str(n), 'reason': 'x' * 900} for n in range(4_000)]"),
  ),
  cutOff(
    'saves a part that never ends',
    HELD,
    saving("for _ in range(200): yield part(['x'], bytes(8 << 20), False)"),
    { on: ['subprocess', 'user'] },
  ),
  cutOff('saves a header of a million lists', STALL, saving('yield part([[] for _ in range(1_300_000)])')),
  ...[
    "struct.pack('<I', 0xFFFFFFFF) + b'{'",
    "b''",
    "part(['../x'], kind='')",
    "(lambda head: struct.pack('<I', len(head)) + head)(b'{\"__proto__\": {}}')",
  ].map((payload, at) => cutOff(`saves a header that is no header: ${at + 1}`, CUT, saving(`yield ${payload}`))),
  {
    name: 'saves the maximum number of names repeatedly, while a client follows',
    promise: HELD,
    on: everywhere,
    attempt: async ({ mallory, url }) => {
      const session = await mallory.open({ saveAfterMs: 100_000 });
      const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${session}/ws?after=0`, {
        headers: { authorization: `Bearer ${mallory.token}` },
      });
      let events = 0;
      socket.on('message', (data) => {
        if (String(data.toString('utf8')).includes('"saved"')) events += 1;
      });
      await first(socket, 'open');
      await mallory.value(
        saving(
          "yield part(['%0100d' % n for n in range(10_000)])",
          `lost = [{'name': '%0255d' % n, 'reason': 'x' * 900} for n in range(100)]\nsaved = ['%0100d' % n for n in range(10_000)]`,
        ),
        { session },
      );
      for (let times = 0; times < 40; times += 1) {
        await mallory.run('1', { session });
        expect((await mallory.call(`POST /v1/sessions/${session}/save`)).status).toBe(204);
      }
      await expect.poll(() => events).toBeGreaterThanOrEqual(40);
      socket.terminate();
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  },
  {
    name: 'saves the maximum number of segments and names, lists them, and resumes without them',
    promise: STALL,
    on: everywhere,
    quick: true,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ saveAfterMs: 100_000 });
      await mallory.value(
        saving(
          "for n in range(20_000): yield part(['name%d' % (n // 2)])",
          "saved, lost = [], [{'name': 'lost%d' % n, 'reason': 'x' * 900} for n in range(100)]",
        ),
        { session },
      );
      for (let times = 0; times < 5; times += 1) {
        const made = await mallory.call(`POST /v1/sessions/${session}/checkpoints`, { body: { durable: true } });
        expect(made.status, made.text).toBe(201);
        expect(made.json.lost.length).toBeLessThanOrEqual(100);
      }
      const listed = await mallory.call(`GET /v1/sessions/${session}/checkpoints`);
      expect(listed.json.checkpoints).toHaveLength(5);
      expect((await mallory.call(`POST /v1/sessions/${session}/hibernate`)).status).toBe(204);
      const { resumed } = await mallory.run('1', { session });
      expect(resumed).toMatchObject({ restored: [], moreLost: 10_000 + 100 - resumed.lost.length });
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  },
];

const values: Row[] = [
  alone('returns a text of 20 million lone surrogates', STALL, '"\\udc80" * 20_000_000', { quick: true }),
  alone('returns an integer of 100 million bits', STALL, '1 << 100_000_000', { quick: true }),
  alone('returns a dict of 500,000 keys', STALL, '{n: n for n in range(500_000)}'),
  alone('returns a list of 3 million items', STALL, '[None] * 3_000_000'),
  alone('returns a million sets in tuples in lists', STALL, '[({n},) for n in range(400_000)]'),
  alone('returns 60 MB of text that needs escapes', STALL, '"\\x00\\u2028" * 10_000_000'),
  alone('returns 60 MB of bytes', STALL, 'bytes(60_000_000)'),
  alone(
    'returns a value that is nested 100,000 levels deep',
    STALL,
    'value = []\nfor _ in range(100_000): value = [value]\nvalue',
  ),
  alone('returns a value that contains itself', STALL, 'value = {}; value["self"] = value; value'),
  alone(
    'returns NaN and infinities, and keys that collide',
    STALL,
    '{float("nan"): float("inf"), 1: 1, True: 2, "1": 3, None: 4, (1,): 5, b"x": 6}',
  ),
  alone(
    'returns an object with an endless repr',
    STALL,
    'class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()',
    { ms: 2000 },
  ),
  alone('returns a repr of 200 MB', HELD, 'class Long:\n    def __repr__(self): return "x" * 200_000_000\nLong()'),
  alone(
    'returns names of prototype properties',
    CUT,
    '{"__proto__": {"admin": True}, "constructor": 1, "toString": 2, "hasOwnProperty": 3, "then": 4}',
    { quick: true },
  ),
];

const displays: Row[] = [
  alone(
    'displays 300,000 MIME types at once',
    STALL,
    'class Many:\n    def _repr_mimebundle_(self, **_): return {"x/%d" % n: "" for n in range(300_000)}\ndisplay(Many())',
    { quick: true },
  ),
  alone(
    'displays MIME types with names of a megabyte',
    HELD,
    'class Long:\n    def _repr_mimebundle_(self, **_): return {"x/" + "y" * 1_000_000 + str(n): "" for n in range(40)}\nfor _ in range(10): display(Long())',
  ),
  alone(
    'displays pictures of 50 MB',
    HELD,
    'class Big:\n    def _repr_mimebundle_(self, **_): return {"image/png": "A" * 50_000_000}\nfor _ in range(6): display(Big())',
  ),
  alone('displays 100,000 times', HELD, 'for n in range(100_000): display(n)', { stalls: false }),
  alone(
    'displays HTML that would run in a page',
    CUT,
    'class Page:\n    def _repr_html_(self): return "<script>fetch(1)</script>" * 1000\ndisplay(Page())',
  ),
];

const output: Row[] = [
  alone('prints 300 MB without a newline', HELD, 'import sys\nfor _ in range(300): sys.stdout.write("x" * 1_000_000)', {
    stalls: false,
  }),
  alone('prints a million short lines', HELD, 'import sys\nfor n in range(1_000_000): sys.stdout.write("%d\\n" % n)', {
    stalls: false,
  }),
  alone(
    'writes invalid UTF-8 to all descriptors',
    CUT,
    'import os\nfor fd in (1, 2):\n    for _ in range(200):\n        os.write(fd, bytes(range(256)) * 100)',
  ),
  alone(
    'prints control characters for terminals and logs',
    CUT,
    String.raw`print("\x1b]0;owned\x07\x1b[2J\x1b[1;1H\r\n{\"level\":60,\"msg\":\"forged\"}\r\n\u202e\u2028")`,
  ),
  alone(
    'raises an error of 50 MB with a million notes',
    HELD,
    'error = ValueError("x" * 50_000_000)\nfor n in range(200_000): error.add_note(str(n)) if hasattr(error, "add_note") else None\nraise error',
  ),
  alone(
    'raises errors from errors, 10,000 deep',
    STALL,
    'error = None\nfor n in range(10_000):\n    new = ValueError(str(n))\n    new.__cause__ = error\n    error = new\nraise error',
  ),
  alone(
    'raises an exception whose name and message are not text',
    CUT,
    'class Odd(Exception):\n    def __str__(self): raise RuntimeError("no")\nOdd.__name__ = "\\ud800" * 1000\nraise Odd()',
  ),
  alone(
    'prints from a thread for as long as it lives',
    HELD,
    'import threading\ndef talk():\n    while True: print("x" * 100_000)\nthreading.Thread(target=talk, daemon=True).start()',
    { stalls: false, ms: 2000 },
  ),
  alone(
    'calls input() in 300 threads',
    HELD,
    'import threading, time\nfor n in range(300): threading.Thread(target=input, args=("?" * 10_000,), daemon=True).start()\ntime.sleep(1)',
    { ms: 3000 },
  ),
];

/** The kernel's own connection is found as any code could find it. */
const FRAMES = `
import marshal, os, struct
control = 256
def frame(kind, number, payload=b''):
    return struct.pack('<IBI', len(payload), ord(kind), number) + payload
def send(data):
    while data:
        data = data[os.write(control, data):]
def pack(value):
    return marshal.dumps(value, 2)
`;

const frames: Row[] = [
  ...[
    'h',
    'r',
    'p',
    'q',
    'c',
    'x',
    't',
    'v',
    'w',
    'l',
    'o',
    'a',
    'f',
    'd',
    'g',
    'm',
    'j',
    'S',
    'X',
    'Y',
    '\\x00',
    '\\xff',
  ].map(
    (kind): Row => ({
      name: `sends a frame ${kind} of 60 MB, of nothing, and of the wrong kind`,
      promise: CUT,
      on: everywhere,
      quick: kind === 'v',
      attempt: async ({ mallory }) => {
        const session = await mallory.open({ graceMs: 500 });
        // Each from a kernel of its own: the one before is cut off.
        for (const payload of ['bytes(60 << 20)', "b''", 'pack([1] * 1000)', `b'{"pid": 1}'`]) {
          const code = `${FRAMES}
for number in (2, 0, 1, 0x80000001, 0xFFFFFFFF):
    send(frame('${kind}', number, ${payload}))
import time; time.sleep(5)`;
          const { death } = await mallory.run(code, { session, timeoutMs: 8000 });
          // Nothing in the place of a call that it takes back is no mistake.
          if (kind !== 'x' || payload !== "b''")
            expect.soft([payload, death?.code]).toEqual([payload, 'KERNEL_PROTOCOL']);
        }
        await mallory.call(`DELETE /v1/sessions/${session}`);
      },
    }),
  ),
  ...[256, 257, 258, 259, 260, 261].map((fd) =>
    alone(
      `writes garbage to descriptor ${fd}, closes it and puts another in its place`,
      CUT,
      `
import os
for data in (b'\\xff' * 70_000, b'\\0' * 70_000, b'{}\\n' * 1000):
    try:
        os.set_blocking(${fd}, False)
        os.write(${fd}, data)
    except OSError as error:
        print(error)
try:
    os.dup2(os.open('/dev/zero', os.O_RDONLY), ${fd})
    os.close(${fd})
except OSError as error:
    print(error)`,
      { ms: 5000 },
    ),
  ),
  alone(
    'replays replies, and calls the host with numbers that it has used',
    CUT,
    `${FRAMES}
for _ in range(3):
    for number in (1, 2, 3):
        send(frame('c', number, pack(('artifacts.list', {}))))
        send(frame('x', number))
import time; time.sleep(2)`,
    { ms: 5000 },
  ),
  alone(
    'calls methods of the host that there are not, and some that are not for code',
    CUT,
    `${FRAMES}
for at, name in enumerate(('__proto__', 'constructor', 'toString', 'artifacts.__proto__', 'tools.constructor', 'session.close', 'host.exec', '../tools', 'x' * 64, 'deps.__lookupGetter__')):
    send(frame('c', 1000 + at, pack((name, {}))))
import time; time.sleep(2)`,
    { ms: 5000 },
  ),
];

const backlog: Row[] = [
  {
    name: 'has a log of 100,000 events read from its beginning',
    promise: STALL,
    on: once,
    attempt: async (world) => {
      const { mallory, url } = world;
      const session = await mallory.open();
      await mallory.run('for n in range(100_000): display(n)', { session, timeoutMs: 120_000 });
      // Making them is another row's matter.
      await world.pulse();
      const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${session}/ws?after=0`, {
        headers: { authorization: `Bearer ${mallory.token}` },
      });
      let last = 0;
      await new Promise<void>((resolve) => {
        socket.on('message', (data) => {
          const text = String(data.toString('utf8')).slice(-400);
          last = Math.max(last, Number(/"seq":(\d+)/.exec(text)?.[1] ?? 0));
          if (last >= 100_000) resolve();
        });
        socket.on('close', () => resolve());
        socket.on('error', () => resolve());
      });
      socket.terminate();
      await mallory.call(`GET /v1/sessions/${session}/conversation`);
      await mallory.call(`GET /v1/sessions/${session}/events?execution=exe_0000000000000000&limit=1`);
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  },
  {
    name: 'searches skills with a query of a megabyte',
    promise: STALL,
    on: everywhere,
    quick: true,
    attempt: async ({ mallory }: World) => {
      await mallory.run('skills.create("one", "async def run():\\n    return 1\\n", "One")');
      for (const query of ['"word " * 200_000', '" ".join("w%d" % n for n in range(100_000))']) {
        for (const namespace of ['skills', 'tools']) {
          const { error } = await mallory.run(`${namespace}.search(${query})`);
          // With few skills nobody would wait for it: it is refused whatever there is to look through.
          expect(String(error?.message)).toContain('the limit is 1000');
        }
      }
    },
  },
];

export const kernelMessageRows: readonly Row[] = [
  ...saves,
  ...values,
  ...displays,
  ...output,
  ...frames,
  ...backlog,
  contained('stays silent for the rest of its time', STALL, 'import os\nos.close(256)\nwhile True: pass', {
    ms: 2000,
    stalls: false,
  }),
];
