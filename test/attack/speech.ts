/** What a kernel says to the server: values, displays, output, saves and forged frames. All of it is hostile. */

import { WebSocket } from 'ws';
import { contained, everywhere, once, type Row } from './row.ts';
import type { World } from './world.ts';

const HELD = 'All that a kernel can make the server hold has a bound.';
const STALL = 'Nothing that a kernel sends holds up the server for others.';
const CUT = 'A kernel that does not keep to the protocol is cut off, and nobody else notices.';

/** Code of a cell in a session of its own, so that what it breaks is over with it. */
function alone(
  name: string,
  promise: string,
  code: string,
  options: Partial<Row> & { ms?: number; after?: string } = {},
): Row {
  const { ms = 60_000, after, ...rest } = options;
  return {
    name,
    promise,
    on: everywhere,
    ...rest,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      await mallory.run(code, { session, timeoutMs: ms });
      if (after !== undefined) await mallory.call(after.replace('~', `/v1/sessions/${session}`));
      await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  };
}

/** Puts its own saving in the place of the kernel's. */
const SAVES = (body: string) => `
import json, struct, sys
from cella_kernel import frames
from cella_kernel.kernel import checkpoint_io
def part(header, data=b''):
    head = json.dumps(header).encode()
    return struct.pack('<I', len(head)) + head + data
def hostile(send, *rest):
${body
  .trim()
  .split('\n')
  .map((line) => `    ${line}`)
  .join('\n')}
    send(frames.SAVED, checkpoint_io.answer(checkpoint_io.NOTHING))
checkpoint_io.save = hostile
for module in list(sys.modules.values()):
    if getattr(module, '__name__', '').startswith('cella_kernel') and hasattr(module, 'save'):
        module.save = hostile`;

const SAVE = 'POST ~/save';

const saves: Row[] = [
  alone(
    'saves parts whose headers hold names of 9 MiB',
    HELD,
    SAVES(`
for number in range(200):
    send(frames.PART, part({'kind': 'x', 'names': ['%d' % number + 'x' * ((9 << 20) - 1000)], 'portable': True, 'last': True}))`),
    { after: SAVE, quick: true, on: ['subprocess', 'user'] },
  ),
  alone(
    'saves a million parts of nothing',
    HELD,
    SAVES(`
one = part({'kind': 'x', 'names': ['x'], 'portable': True, 'last': True})
for _ in range(300_000):
    send(frames.PART, one)`),
    { after: SAVE, on: ['subprocess', 'user'] },
  ),
  alone(
    'saves names in their hundred thousands, lost ones with long reasons',
    HELD,
    `${SAVES(`
many = [{'name': str(number), 'reason': 'x' * 200} for number in range(200_000)]
send(frames.SAVED, checkpoint_io.answer({'saved': [str(n) for n in range(200_000)], 'lost': many}))`)}`,
    { after: SAVE },
  ),
  alone(
    'saves a part that never ends',
    HELD,
    SAVES(`
for _ in range(200):
    send(frames.PART, part({'kind': 'x', 'names': ['x'], 'portable': True, 'last': False}, bytes(8 << 20)))`),
    { after: SAVE, on: ['subprocess', 'user'] },
  ),
  alone(
    'saves headers that are no headers',
    CUT,
    SAVES(`
send(frames.PART, struct.pack('<I', 0xFFFFFFFF) + b'{')
send(frames.PART, b'')
send(frames.PART, part({'kind': '../../x', 'names': ['../x'], 'portable': True, 'last': True, '__proto__': {}}))`),
    { after: SAVE },
  ),
];

const values: Row[] = [
  alone('gives a text of 20 million lone surrogates', STALL, '"\\udc80" * 20_000_000', { quick: true }),
  alone('gives an integer of 100 million bits', STALL, '1 << 100_000_000', { quick: true }),
  alone('gives a dict of 500,000 keys', STALL, '{n: n for n in range(500_000)}'),
  alone('gives a list of 3 million items', STALL, '[None] * 3_000_000'),
  alone('gives sets in tuples in lists, a million of them', STALL, '[({n},) for n in range(400_000)]'),
  alone('gives 60 MB of text that must be escaped', STALL, '"\\x00\\u2028" * 10_000_000'),
  alone('gives bytes of 60 MB', STALL, 'bytes(60_000_000)'),
  alone(
    'gives a value that is nested 100,000 deep',
    STALL,
    'value = []\nfor _ in range(100_000): value = [value]\nvalue',
  ),
  alone('gives a value that holds itself', STALL, 'value = {}; value["self"] = value; value'),
  alone(
    'gives floats that are none, and keys that are one another',
    STALL,
    '{float("nan"): float("inf"), 1: 1, True: 2, "1": 3, None: 4, (1,): 5, b"x": 6}',
  ),
  alone(
    'gives an object whose repr never ends',
    STALL,
    'class Endless:\n    def __repr__(self):\n        while True: pass\nEndless()',
    { ms: 2000 },
  ),
  alone('gives a repr of 200 MB', HELD, 'class Long:\n    def __repr__(self): return "x" * 200_000_000\nLong()'),
  alone(
    'gives names that prototypes have',
    CUT,
    '{"__proto__": {"admin": True}, "constructor": 1, "toString": 2, "hasOwnProperty": 3, "then": 4}',
    { quick: true },
  ),
];

const displays: Row[] = [
  alone(
    'displays 300,000 kinds of media at once',
    STALL,
    'class Many:\n    def _repr_mimebundle_(self, **_): return {"x/%d" % n: "" for n in range(300_000)}\ndisplay(Many())',
    { quick: true },
  ),
  alone(
    'displays kinds of media with names of a megabyte',
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
  alone(
    'prints 300 MB without a line’s end',
    HELD,
    'import sys\nfor _ in range(300): sys.stdout.write("x" * 1_000_000)',
    { stalls: false },
  ),
  alone('prints a million short lines', HELD, 'import sys\nfor n in range(1_000_000): sys.stdout.write("%d\\n" % n)', {
    stalls: false,
  }),
  alone(
    'writes bytes that are no text to all descriptors',
    CUT,
    'import os\nfor fd in (1, 2):\n    for _ in range(200):\n        os.write(fd, bytes(range(256)) * 100)',
  ),
  alone(
    'prints what a terminal would obey, and what logs would break on',
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
    'raises an error whose name and text are no text',
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
    'asks for input in 300 threads',
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
  ].map((kind) =>
    alone(
      `sends a frame ${kind} of 60 MB, of nothing, and of the wrong kind`,
      CUT,
      `${FRAMES}
for payload in (b'', b'N', pack({}), pack([1] * 1000), b'{"pid": 1}', bytes(60 << 20)):
    for number in (0, 1, 2, 0x80000001, 0xFFFFFFFF):
        send(frame('${kind}', number, payload))
import time; time.sleep(5)`,
      { ms: 8000, quick: kind === 'v' },
    ),
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
    name: 'searches skills with a text of a megabyte',
    promise: STALL,
    on: everywhere,
    quick: true,
    attempt: async ({ mallory }: World) => {
      await mallory.run('skills.create("one", "async def run():\\n    return 1\\n", "One")');
      await mallory.run('skills.search("word " * 200_000)');
      await mallory.run('skills.search(" ".join("w%d" % n for n in range(100_000)))');
    },
  },
];

export const speechRows: readonly Row[] = [
  ...saves,
  ...values,
  ...displays,
  ...output,
  ...frames,
  ...backlog,
  contained('says nothing at all for the rest of its time', STALL, 'import os\nos.close(256)\nwhile True: pass', {
    ms: 2000,
    stalls: false,
  }),
];
