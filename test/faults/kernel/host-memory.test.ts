/** Code that makes the host hold as much as it can: that kernel is cut off or held up, and its neighbours do not notice. */

import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecutionEvent, Session, SessionOptions } from '../../../src/index.ts';
import { Server } from '../../server/stalls/rows.ts';
import { INSTEAD_OF_SAVING } from '../../support/kernels/hostile-saves.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';

const PRELUDE = `
import json, marshal, os, socket, stat, struct, sys, threading, time
control = 256
def frame(kind, number, payload=b''):
    return struct.pack('<IBI', len(payload), ord(kind), number) + payload
def send(data):
    data = memoryview(data)
    while data:
        data = data[os.write(control, data):]
def pack(value):
    return marshal.dumps(value, 2)
def part(names, data=b'', last=True, kind='pickle'):
    head = json.dumps({'kind': kind, 'names': names, 'portable': True, 'last': last}).encode()
    return struct.pack('<I', len(head)) + head + data
def instead_of_saving(parts):
    """The machinery of the kernel lies in its own memory, as open to code as everything there."""
    def save(send_as, namespace, cells, limit_bytes, seconds):
        for payload in parts():
            send_as(ord('v'), payload)
        send_as(ord('w'), pack({'python': '3.11.2', 'saved': [], 'lost': []}))
    sys.modules['cella_kernel.kernel.checkpoint_io'].save = save
`;

/** What a host may grow by while it takes in what flows: buffers, what waits, and garbage that is not collected yet. */
const MOST_GROWTH = 400 * 1024 * 1024;

/** Characters of events that wait for a reader: 8 MiB, and the last one. */
const MOST_UNREAD = 12 * 1024 * 1024;

type Run = (session: Session, code: string) => Promise<unknown>;
const run: Run = (session, code) => session.run(code, { timeoutMs: 20_000 });

interface AttackOptions {
  readonly by?: Run;
  readonly settings?: SessionOptions;
  readonly memory?: () => number;
}

async function attack(
  code: string,
  how: (session: Session) => Promise<unknown> = async () => {},
  { by = run, settings = {}, memory = process.memoryUsage.rss }: AttackOptions = {},
): Promise<unknown> {
  const neighbour = await openSession({ agentKey: 'neighbour' });
  await neighbour.run('kept = 41');
  const session = await openSession({ agentKey: 'attacker', graceMs: 300, saveAfterMs: 1_000_000_000, ...settings });
  await session.run(PRELUDE);
  globalThis.gc?.();
  const before = memory();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, memory());
  }, 10);
  try {
    const result = await by(session, code);
    const outcome = await how(session).catch((error: unknown) => error);
    expect(most - before).toBeLessThan(MOST_GROWTH);
    expect(await neighbour.run('kept + 1')).toMatchObject({ status: 'ok', value: 42 });
    return outcome ?? result;
  } finally {
    clearInterval(watch);
  }
}

describe('parts of a save that no kernel sends', () => {
  test.each([
    ['names of 9 MiB', "part(['x' * 9_000_000])", 650, 'a header of'],
    [
      'the same names again and again, with next to no bytes',
      "part(['%0255d' % n for n in range(1000)], b'x')",
      2000,
      'too many segments or names',
    ],
    [
      'headers without an end to their segment',
      "part(['%0255d' % n for n in range(10_000)], b'x', False)",
      2000,
      'over its size limit',
    ],
    ['segments without names or bytes', 'part([])', 2_000_000, 'too many segments or names'],
    ['a kind of 9 MiB', "part([], kind='x' * 9_000_000)", 650, 'a header of'],
    ['a name of 256 letters', "part(['x' * 256])", 1, 'wrong shape'],
  ])('%s', { timeout: 120_000 }, async (_name, payload, count, words) => {
    const outcome = await attack(
      `one = ${payload}\ndef parts():\n    for _ in range(${count}): yield one\ninstead_of_saving(parts)`,
      (session) => session.save(),
    );
    // By the bound that is meant for it, and not by a later one.
    expect(outcome).toMatchObject({ code: 'KERNEL_PROTOCOL', message: expect.stringContaining(words) });
  });
});

describe('frames that no kernel sends', () => {
  const died = (words: string) => ({
    status: 'died',
    death: { code: 'KERNEL_PROTOCOL', message: expect.stringContaining(words) },
  });

  test.each([
    [
      'questions with prompts of megabytes',
      "ask = pack(('input', {'execution': 2, 'prompt': 'x' * 1_900_000, 'password': False, 'markers': (0, 0)}))\nfor n in range(1, 250): send(frame('c', n, ask))",
      'prompt',
    ],
    [
      'a bundle of 300,000 MIME types',
      "send(frame('p', 2, pack({'data': {'a/%d' % n: '' for n in range(300_000)}, 'markers': (0, 0)})))",
      'too many items',
    ],
    [
      'a bundle of 101 MIME types',
      "send(frame('p', 2, pack({'data': {'a/%d' % n: '' for n in range(101)}, 'markers': (0, 0)})))",
      'MIME types',
    ],
    [
      'a MIME type of megabytes',
      "send(frame('p', 2, pack({'data': {'a' * 8_000_000: ''}, 'markers': (0, 0)})))",
      'MIME type that is too long',
    ],
    [
      'an error with a text of megabytes',
      "send(frame('r', 2, pack({'status': 'error', 'error': {'name': 'E', 'message': 'x' * 20_000_000, 'traceback': ''}, 'markers': (0, 0)})))",
      'message',
    ],
    ['keys of megabytes that are not expected', "send(frame('r', 2, pack({'x' * 20_000_000: 1})))", 'wrong shape'],
    ['a call of megabytes', "send(frame('c', 9, pack(('tools.call', {'x': 'x' * 8_000_000}))))", 'a call of'],
    [
      'an integer of millions of digits',
      "send(frame('r', 2, pack({'status': 'ok', 'repr': '', 'value': 1 << 8_000_000, 'markers': (0, 0)})))",
      'integer',
    ],
  ])('%s', { timeout: 120_000 }, async (_name, code, words) => {
    const outcome = await attack(`${code}\ntime.sleep(60)`);
    expect(outcome).toMatchObject(died(words));
    expect((outcome as { death: { message: string } }).death.message.length).toBeLessThan(1000);
  });

  test('a million displays of nothing: the result keeps a thousand', { timeout: 120_000 }, async () => {
    const code = "one = frame('p', 2, pack({'data': {}, 'markers': (0, 0)})) * 1000\nfor _ in range(1000): send(one)";
    const { displays, truncated } = (await attack(code)) as { displays: unknown[]; truncated: { displays: number } };
    expect(displays).toHaveLength(1000);
    expect(truncated.displays).toBe(999_000);
  });

  test('a frame that arrives byte by byte takes no more memory than its bytes', { timeout: 120_000 }, async () => {
    const code = `
whole = frame('p', 2, pack({'data': {'text/plain': 'x' * 400_000}, 'markers': (0, 0)}))
for at in range(len(whole)): os.write(control, whole[at:at + 1])`;
    const { displays } = (await attack(code)) as { displays: unknown[] };
    expect(displays).toHaveLength(1);
  });
});

describe('calls whose replies the kernel does not read', () => {
  const BIG = "big = {'x': [b''] * 49_900}";

  test.each([
    ['with many items each', `${BIG}\nfor n in range(4000, 4070): send(frame('c', n, pack(('x.y', big))))`],
    [
      'with many items each, which wait for each other',
      `${BIG}\nfor n in range(4000, 4130): send(frame('c', n, pack(('artifacts.list', big))))`,
    ],
  ])('%s', { timeout: 120_000 }, async (_name, code) => {
    // The socket to the kernel is full before: each later reply waits on the host.
    const few = "for n in range(1000, 4000): send(frame('c', n, pack(('x.y', {}))))";
    const result = await attack(`${few}\n${code}`);
    expect(result).toMatchObject({ status: expect.stringMatching(/^(ok|timeout|died)$/) });
  });
});

describe('output of tools that the code makes', () => {
  /** A tool that writes what the code has put into a file of the workspace. */
  const tool = (name: string, fields: object) =>
    JSON.stringify({ name, command: 'cat', schema: { positional: [{ name: 'file' }] }, ...fields });
  const TOOLS = [
    tool('text', { output_limit: 67_108_864 }),
    tool('lines', { result: 'lines', output_limit: 4_194_304 }),
    tool('items', { result: 'json', output_limit: 4_194_304 }),
  ];
  const CALLS = `
async def one(name):
    try: return len(await getattr(tools, name).call_async('made'))
    except Exception as error: return error.code
async def all_of(name, count):
    import asyncio
    return sorted(set(await asyncio.gather(*[one(name) for _ in range(count)])))
def make(text):
    with open('made', 'w') as file: file.write(text)
`;
  const attackWithTools = async (code: string, options: AttackOptions): Promise<unknown> => {
    const toolFolder = await scratchFolder();
    await Promise.all(TOOLS.map((yaml, at) => writeFile(join(toolFolder, `${at}.yaml`), yaml)));
    return await attack(`${CALLS}\n${code}`, undefined, { settings: { toolFolders: [toolFolder] }, ...options });
  };
  const patient: Run = (session, code) => session.run(code, { timeoutMs: 200_000 });

  test('many calls with a large text', { timeout: 300_000 }, async () => {
    const code = "make('x' * 40_000_000)\nawait all_of('text', 8)";
    expect(await attackWithTools(code, { by: patient })).toMatchObject({ status: 'ok', value: [40_000_000] });
  });

  test('many calls with a large text, and the kernel does not read the replies', { timeout: 300_000 }, async () => {
    const code = `
make('x' * 40_000_000)
call = pack(('tools.call', {'name': 'text', 'recipe': None, 'positional': ['made'], 'named': {}}))
for n in range(4000, 4016): send(frame('c', n, call))
import signal
os.kill(os.getpid(), signal.SIGSTOP)`;
    const by: Run = (session, attacking) => session.run(attacking, { timeoutMs: 10_000 });
    expect(await attackWithTools(code, { by })).toMatchObject({ status: 'timeout' });
  });

  describe('of small values', () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage: () => void = runInNewContext('gc');
    const SOME_GARBAGE = 100 * 1024 * 1024;
    const used = () => process.memoryUsage().heapUsed + process.memoryUsage().external;
    /** Measures without most of the garbage: V8 may keep 500 MB of it. */
    const heldBytes = () => {
      let held = 0;
      return () => {
        if (used() < held + SOME_GARBAGE) return held;
        collectGarbage();
        held = used();
        return held;
      };
    };

    test.each([
      ['as many nested lists as fit', 'items', "'[' + ('[' * 199 + ']' * 199 + ',') * 4000 + '0]'", 4001],
      ['too many dicts', 'items', "'[' + '{},' * 1_300_000 + '0]'", 'TOOL_FAILED'],
      ['as many lines as fit', 'lines', "'abc\\n' * 900_000", 900_000],
      ['too many lines', 'lines', "'\\n' * 4_000_000", 'TOOL_FAILED'],
    ])('%s', { timeout: 300_000 }, async (_name, name, text, value) => {
      const code = `make(${text})\nawait all_of('${name}', 16)`;
      const outcome = await attackWithTools(code, { by: patient, memory: heldBytes() });
      expect(outcome).toMatchObject({ status: 'ok', value: [value] });
    });
  });
});

describe('unread events', () => {
  /** The reader comes when the code is over. */
  const readLate: Run = async (session, code) => {
    const stream = session.stream(code, { timeoutMs: 3000 });
    await session.run('1');
    let [last, held]: [ExecutionEvent | undefined, number] = [undefined, 0];
    for await (const event of stream) {
      last = event;
      if (event.type !== 'result') held += JSON.stringify(event).length;
    }
    expect(held).toBeLessThan(MOST_UNREAD);
    return last;
  };

  test.each([
    [
      'questions that are taken back at once',
      "ask = pack(('input', {'execution': 2, 'prompt': 'x' * 60_000, 'password': False, 'markers': (0, 0)}))\nfor n in range(1, 100_000): send(frame('c', n, ask) + frame('x', n))",
    ],
    ['displays', "for _ in range(500): display('x' * 1_900_000)"],
    ['output', "for _ in range(500): print('x' * 1_900_000)"],
  ])('%s', { timeout: 120_000 }, async (_name, code) => {
    const last = await attack(code, undefined, { by: readLate });
    expect(last).toMatchObject({ type: 'result', status: 'timeout' });
  });
});

test('a session that requests results of a gigabyte gets 32 MiB of each stream', { timeout: 120_000 }, async () => {
  const code = "import sys\nfor _ in range(400): sys.stdout.write('x' * 1_000_000)\nNone";
  const result = await attack(code, undefined, { settings: { outputLimitBytes: 1_073_741_824 } });
  expect(result).toMatchObject({ status: 'ok', truncated: { stdoutBytes: expect.any(Number) } });
  const { truncated } = result as { truncated: { stdoutBytes: number } };
  // The end is cut a little late, so that it is not cut for each piece.
  const kept = 400_000_000 - truncated.stdoutBytes;
  expect(kept).toBeGreaterThanOrEqual(32 * 1024 * 1024);
  expect(kept).toBeLessThan(32 * 1024 * 1024 + 65_536);
});

describe('a server with followers', () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start(await scratchFolder());
  }, 60_000);
  afterAll(() => server?.end());

  const SAVES = 60;
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) * 1024;

  const AS_MANY_NAMES_AS_MAY_BE = `
lost = [{'name': '%0255d' % n, 'reason': 'x' * 900} for n in range(100)]
saved = ['%0100d' % n for n in range(10_000)]`;
  const MORE = "lost = [{'name': '%0255d' % n, 'reason': 'x' * 900} for n in range(10_000)]\nsaved = []";

  test.each([
    ['as many names as may be', AS_MANY_NAMES_AS_MAY_BE],
    ['more names than may be', MORE],
  ])('many saves with %s', { timeout: 300_000 }, async (_name, names) => {
    const { id } = await server.json<{ id: string }>('POST /v1/sessions', server.token, {});
    const ask = (what: string, body?: unknown) => {
      const [method = 'GET', path = ''] = what.split(' ');
      return server.discard(method, `/v1/sessions/${id}${path}`, server.token, body);
    };
    const following = server.follow(`/v1/sessions/${id}/ws?after=0`, server.token, 1_000_000).catch(() => {});
    const parts = "def parts():\n    yield part(['%0100d' % n for n in range(10_000)])";
    const code = `${INSTEAD_OF_SAVING}\n${names}\n${parts}\ninstead_of_saving(parts, lost, saved)`;
    await ask('POST /execute', { code });
    const before = rss();
    let most = before;
    for (let times = 0; times < SAVES; times += 1) {
      await ask('POST /execute', { code: '1' });
      await ask('POST /save');
      most = Math.max(most, rss());
    }
    await ask('GET /events?limit=1000');
    await ask('DELETE ');
    await following;
    expect(Math.max(most, rss()) - before).toBeLessThan(MOST_GROWTH);
  });
});
