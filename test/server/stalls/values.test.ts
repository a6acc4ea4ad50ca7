/** Nothing that code sends its server stops the event loop for long: values, displays, errors, calls, saves, answers. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { expectNoStall, serverLoop } from '../../support/servers/stalls.ts';
import { Server } from './rows.ts';

let server: Server;
let session: string;

beforeAll(async () => {
  server = await Server.start(await scratchFolder());
  session = (await server.json<{ id: string }>('POST /v1/sessions', server.token, { agentKey: 'hostile' })).id;
  await run('import sys, os, struct, marshal, json');
}, 120_000);
afterAll(() => server?.end());

const ask = async (what: string, body?: unknown) => {
  const [method = 'GET', path = ''] = what.split(' ');
  expect(await server.discard(method, `/v1/sessions/${session}${path}`, server.token, body), what).toBe(200);
};
const run = (code: string) => ask('POST /execute', { code });
const row = (name: string, work: () => Promise<unknown>) =>
  it(name, { timeout: 120_000 }, () => expectNoStall(work, serverLoop(server.url, server.pid)));

describe('a value', () => {
  for (const [name, code] of [
    ['lone surrogates, far too many', '"\\udc80" * 20_000_000'],
    ['as many lone surrogates as travel', '"\\udc80" * 2_700_000'],
    ['control characters, which JSON writes as six each', '"\\x01" * 8_000_000'],
    ['text of three bytes each', '"\\uffff" * 2_700_000'],
    ['an integer of 30 million digits', '1 << 100_000_000'],
    ['as many integers of 10,000 digits as travel', '[1 << 33_000] * 130'],
    ['a dict of 500,000 keys', '{str(n): n for n in range(500_000)}'],
    ['a dict of 50,000 keys', '{"k%d" % n: n for n in range(50_000)}'],
    ['a dict whose keys look like places of a list', '{str(n * 85_899): n for n in range(50_000)}'],
    ['50,000 small lists and texts', '[["x" * 100] for n in range(25_000)]'],
    ['50,000 pieces of bytes', '[b"x" * 150] * 50_000'],
    ['8 MB of bytes', 'bytes(8_000_000)'],
    ['50,000 integers past 2^53', '[2 ** 85] * 50_000'],
    ['integers of 400 bits', '[2 ** 400] * 9_900'],
    ['a repr of a million characters', 'type("R", (), {"__repr__": lambda self: "\\udc80" * 2_000_000})()'],
  ] as const) {
    row(name, () => run(code));
  }
});

describe('a retry', () => {
  row('of an execution whose result has 32 MB of lines', async () => {
    const created = { agentKey: 'retries', outputLimitBytes: 32 * 1024 * 1024 };
    const { id } = await server.json<{ id: string }>('POST /v1/sessions', server.token, created);
    for (let tries = 0; tries < 2; tries++) {
      const response = await fetch(`${server.url}/v1/sessions/${id}/execute`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.token}`,
          'content-type': 'application/json',
          'idempotency-key': 'lines',
        },
        body: JSON.stringify({ code: 'import os; os.write(1, b"\\n" * 40_000_000); None' }),
      });
      let bytes = 0;
      for await (const chunk of response.body ?? []) bytes += chunk.length;
      expect(bytes).toBeGreaterThan(60_000_000);
    }
  });
});

describe('its displays', () => {
  row('300,000 MIME types', () =>
    run('type("R", (), {"_repr_mimebundle_": lambda self, **_: {"a/%d" % n: "" for n in range(300_000)}})()'),
  );
  row('displays of control characters', () => run('for _ in range(4): display("\\x01" * 1_000_000)'));
  row('displays of many items', () =>
    run('class R:\n    def _repr_json_(self): return [None] * 49_000\nfor _ in range(100): display(R())'),
  );
  row('a thousand small displays', () => run('for n in range(2_000): display(n)'));
  row('an error with a text of megabytes', () => run('raise ValueError("\\x01" * 50_000_000)'));
  row('output of control characters', () => run('sys.stdout.write("\\x01" * 3_000_000); None'));
});

describe('its calls', () => {
  row('a call with 300,000 arguments', () =>
    run('try: tools.nothing(**{"k%d" % n: n for n in range(300_000)})\nexcept Exception: pass'),
  );
  row('a call with as much as travels', () =>
    run('try: tools.nothing(x="\\x01" * 2_000_000, y=list(range(40_000)))\nexcept Exception: pass'),
  );
  row('an artifact with metadata of megabytes', () =>
    run('try: artifacts.save("x", b"", metadata={"x": ["\\x01" * 1_900_000]})\nexcept Exception: pass'),
  );
});

describe('a namespace of 200,000 variables', () => {
  it('is created', { timeout: 120_000 }, () => run('for n in range(200_000): globals()["name_%d" % n] = n'));
  row('is listed', () => ask('GET /variables'));
  row('is completed', () => ask('POST /complete', { code: 'name_', cursor: 5 }));
  it('is gone', { timeout: 120_000 }, () => run('for n in range(200_000): del globals()["name_%d" % n]'));
});

describe('frames written by code', () => {
  let before: string;
  beforeAll(() => {
    before = session;
  });
  afterAll(() => {
    session = before;
  });
  /** Each in a session of its own: one that dies again and again is not started any more. */
  const forge = async (kind: string, payload: string) => {
    session = (await server.json<{ id: string }>('POST /v1/sessions', server.token, {})).id;
    await run('import os, struct, marshal');
    await run(
      `data = ${payload}\ndata = memoryview(struct.pack('<IBI', len(data), ord('${kind}'), 99) + data)\nwhile data: data = data[os.write(256, data):]`,
    );
  };
  for (const [name, kind, payload] of [
    ['a result of one byte items', 'r', "b'[' + struct.pack('<i', 24_000_000) + b'N' * 24_000_000"],
    ['a result of small dicts', 'r', "b'[' + struct.pack('<i', 8_000_000) + b'{0' * 8_000_000"],
    ['a result of an integer', 'r', "b'l' + struct.pack('<i', 12_000_000) + b'\\x01' * 24_000_000"],
    ['a display of lone surrogates', 'p', "marshal.dumps('\\udc80' * 2_900_000, 2)"],
    ['a call of many keys', 'c', 'marshal.dumps({str(n): n for n in range(500_000)}, 2)'],
    ['an answer that nobody has asked for', 'q', "marshal.dumps(['x'] * 600_000, 2)"],
  ] as const) {
    row(name, () => forge(kind, payload));
  }
});
