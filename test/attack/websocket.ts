/** The WebSocket of a session: who may open it, what can be asked for, and what frames can do. */

import { randomBytes } from 'node:crypto';
import { once as happens } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { deflateRawSync } from 'node:zlib';
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import { once, type Row } from './row.ts';
import type { World } from './world.ts';

const OPENED = 'A WebSocket opens only for users who may view the session, from a program or a page of the server.';
const FRAMES = 'No frame blocks the server or takes more than a limited part of its memory.';

interface Way {
  readonly session?: string;
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly token?: string | null;
}

/** Whether it was opened; what it was told is looked at with everything else. */
async function opens(world: World, { session, query = '', headers = {}, token }: Way = {}): Promise<boolean> {
  const { mallory, url } = world;
  const bearer = token === null ? {} : { authorization: `Bearer ${token ?? mallory.token}` };
  const path = `/v1/sessions/${session ?? mallory.session}/ws${query}`;
  const socket = new WebSocket(`${url.replace('http', 'ws')}${path}`, { headers: { ...bearer, ...headers } });
  socket.on('message', (data) => world.seen.push(String(data)));
  const opened = await Promise.race([
    happens(socket, 'open').then(() => true),
    happens(socket, 'close').then(() => false),
  ]).catch(() => false);
  if (opened) await Promise.race([happens(socket, 'message'), happens(socket, 'close')]).catch(() => {}); // the first word is enough
  socket.terminate();
  return opened;
}

const UPGRADE = [
  ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
  `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}`,
];

function row(name: string, promise: string, attempt: (world: World) => Promise<void>, options: Partial<Row> = {}): Row {
  return { name, promise, on: once, ...options, attempt };
}

/** A WebSocket by hand: frames as they are. Gives what was said back. */
async function raw(
  world: World,
  frames: (write: (data: Buffer) => Promise<void>) => Promise<void>,
  more: readonly string[] = [],
  ms = 4000,
): Promise<Buffer> {
  const { hostname, port, host } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {}); // it was cut off
  const parts: Buffer[] = [];
  socket.on('data', (part: Buffer) => parts.push(part));
  const closed = new Promise((resolve) => socket.on('close', resolve));
  const head = [
    `GET /v1/sessions/${world.mallory.session}/ws HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${world.mallory.token}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
    ...more,
    '',
    '',
  ];
  socket.write(head.join('\r\n'));
  await Promise.race([happens(socket, 'data'), closed]);
  const write = (data: Buffer) =>
    new Promise<void>((resolve) => (socket.destroyed ? resolve() : void socket.write(data, () => resolve())));
  const timer = setTimeout(() => socket.destroy(), ms);
  await Promise.race([frames(write), closed]);
  await closed;
  clearTimeout(timer);
  return Buffer.concat(parts);
}

/** Masked, as clients must. */
function frame(opcode: number, payload: Buffer, { fin = true, mask = true, bits = 0 } = {}): Buffer {
  const long = payload.length > 65_535;
  const size = payload.length < 126 ? payload.length : long ? 127 : 126;
  const head = [(fin ? 0x80 : 0) | bits | opcode, (mask ? 0x80 : 0) | size];
  const length = Buffer.alloc(size === 126 ? 2 : size === 127 ? 8 : 0);
  if (size === 126) length.writeUInt16BE(payload.length);
  if (size === 127) length.writeBigUInt64BE(BigInt(payload.length));
  return Buffer.concat([Buffer.from(head), length, ...(mask ? [Buffer.alloc(4)] : []), payload]);
}

const handshakes: Row[] = [
  row(
    'opens another user’s session',
    OPENED,
    async (world) => {
      expect(await opens(world, { session: world.victoria.session })).toBe(false);
      expect(await opens(world, { session: 'ses_0000000000000000' })).toBe(false);
      expect(await opens(world, { session: `${world.mallory.session}%2f..%2f${world.victoria.session}` })).toBe(false);
    },
    { quick: true },
  ),
  row(
    'opens without a token, with one in the URL, and with an unknown subprotocol',
    OPENED,
    async (world) => {
      expect(await opens(world, { token: null })).toBe(false);
      for (const name of ['token', 'access_token', 'authorization'])
        expect(await opens(world, { token: null, query: `?${name}=${world.mallory.token}` })).toBe(false);
      expect(
        await opens(world, { token: null, headers: { 'sec-websocket-protocol': `bearer.${world.mallory.token}` } }),
      ).toBe(false);
    },
    { quick: true },
  ),
  row(
    'opens from a page of another site',
    OPENED,
    async (world) => {
      const { json } = await world.mallory.call('POST /v1/login-codes', { body: {} });
      const { headers } = await world.ask(`POST ${json.path}`, { token: null });
      const cookie = (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
      for (const origin of [
        'https://evil.example',
        'null',
        'file://',
        `${world.url}.evil.example`,
        world.url.replace('127.0.0.1', 'evil'),
        world.url.replace(/\d+$/, '1'),
      ])
        expect
          .soft([origin, await opens(world, { token: null, headers: { cookie, origin } })])
          .toEqual([origin, false]);
    },
    { quick: true },
  ),
  ...['-1', 'NaN', 'Infinity', '99999999999999999999', '1e308', '1.5', '', 'abc', '0&after=1', '%00'].map((after) =>
    row(`asks for events after ${after || 'nothing'}`, OPENED, async (world) => {
      await opens(world, { query: `?after=${after}` });
    }),
  ),
  row('continues after its token was revoked', OPENED, async (world) => {
    const { mallory, url } = world;
    const made = await mallory.call('POST /v1/tokens', { body: { name: 'socket' } });
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${mallory.session}/ws`, {
      headers: { authorization: `Bearer ${made.json.token}` },
    });
    await happens(socket, 'open');
    const { json } = await mallory.call('GET /v1/tokens');
    await mallory.call(`DELETE /v1/tokens/${json.tokens.find((one: { name: string }) => one.name === 'socket').id}`);
    const closed = happens(socket, 'close');
    socket.send(JSON.stringify({ type: 'execute', id: 1, code: "open('revoked', 'w').write('x')" }));
    await closed;
    expect(await mallory.value("__import__('os').path.exists('revoked')")).toBe(false);
  }),
  row('runs code with the right `view`', OPENED, async (world) => {
    const { mallory, victoria, url } = world;
    await victoria.call('PATCH ~', { body: { shares: [{ user: 'mallory', right: 'view' }] } });
    const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${victoria.session}/ws?after=999999`, {
      headers: { authorization: `Bearer ${mallory.token}` },
    });
    const errors: string[] = [];
    socket.on('message', (data) => errors.push(String(data)));
    let over = false;
    socket.on('close', () => {
      over = true;
    });
    await happens(socket, 'open');
    for (const [id, sent] of [
      { type: 'execute', code: 'kept = 0' },
      { type: 'interrupt' },
      { type: 'input', request: 0, text: 'x' },
      { type: 'permission', permission: 'prm_0000000000000000', decision: { decision: 'allow' } },
    ].entries())
      socket.send(JSON.stringify({ id, ...sent }));
    socket.send(JSON.stringify({ type: 'ping', id: 'last' }));
    await expect.poll(() => over || errors.join('').includes('"last"')).toBe(true);
    socket.terminate();
    await victoria.call('PATCH ~', { body: { shares: [] } });
    expect(
      errors
        .filter((text) => text.includes('"reply"'))
        .map((text) => JSON.parse(text).id)
        .filter((id) => id !== 'last'),
    ).toEqual([]);
  }),
];

const text = (value: unknown): Buffer => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

const frames: Row[] = [
  row(
    'sends a message in endless fragments',
    FRAMES,
    async (world) => {
      await raw(world, async (write) => {
        await write(frame(1, text('"'), { fin: false }));
        for (let at = 0; at < 300; at++) await write(frame(0, Buffer.alloc(65_000, 'x'), { fin: false }));
      });
    },
    { quick: true },
  ),
  row('sends a million empty fragments', FRAMES, async (world) => {
    await raw(world, async (write) => {
      await write(frame(1, text('"'), { fin: false }));
      const many = Buffer.concat(Array.from({ length: 10_000 }, () => frame(0, Buffer.alloc(0), { fin: false })));
      for (let at = 0; at < 100; at++) await write(many);
    });
  }),
  row('sends a compressed frame that expands enormously', FRAMES, async (world) => {
    const bomb = deflateRawSync(Buffer.alloc(200_000_000, 'a'));
    const extension = ['Sec-WebSocket-Extensions: permessage-deflate'];
    await raw(world, (write) => write(frame(1, bomb, { bits: 0x40 })), extension);
    await raw(world, (write) => write(frame(1, bomb, { bits: 0x40 })));
  }),
  ...(
    [
      ['without a mask', frame(1, text({ type: 'ping', id: 1 }), { mask: false })],
      ['with reserved bits', frame(1, text('{}'), { bits: 0x70 })],
      ['of an unknown kind', frame(11, text('{}'))],
      ['that is a control frame of 60 kB', frame(9, Buffer.alloc(60_000))],
      ['that is a fragmented ping', frame(9, text('x'), { fin: false })],
      ['that is no UTF-8', frame(1, Buffer.from([0xff, 0xfe, 0xed, 0xa0, 0x80]))],
      ['that is bytes', frame(2, Buffer.alloc(1000))],
      ['that goes on with nothing', frame(0, text('x'))],
      ['whose close says too little', frame(8, Buffer.from([3]))],
      ['whose close has a code that is none', frame(8, Buffer.from([0, 1]))],
      ['of 7 MB that is one text', frame(1, text(`"${'x'.repeat(7_000_000)}"`))],
      ['nested 100,000 deep', frame(1, text('['.repeat(100_000)))],
    ] as const
  ).map(([name, bytes]) =>
    row(`sends a frame ${name}`, FRAMES, async (world) => void (await raw(world, (write) => write(bytes), [], 1500))),
  ),
  row('sends 100,000 pings and never reads', FRAMES, async (world) => {
    const many = Buffer.concat(Array.from({ length: 1000 }, () => frame(9, Buffer.alloc(100))));
    await raw(world, async (write) => {
      for (let at = 0; at < 100; at++) await write(many);
    });
  }),
  row(
    'follows a lot of output and never reads',
    FRAMES,
    async (world) => {
      const { mallory, url } = world;
      const sockets = Array.from(
        { length: 20 },
        () =>
          new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${mallory.session}/ws?after=0`, {
            headers: { authorization: `Bearer ${mallory.token}` },
          }),
      );
      for (const socket of sockets) {
        socket.on('error', () => {}); // told by its end
        socket.on('open', () => socket.pause());
      }
      await mallory.run('for n in range(60): display("x" * 1_000_000)', { timeoutMs: 60_000 });
      for (const socket of sockets) socket.terminate();
    },
    { stalls: false },
  ),
  row(
    'follows a full log 300 times and never reads',
    FRAMES,
    async (world) => {
      const { mallory, url } = world;
      for (let cell = 0; cell < 12; cell++) await mallory.value('for n in range(25): display("x" * 200_000)');
      const { hostname, port, host } = new URL(url);
      const target = `GET /v1/sessions/${mallory.session}/ws?after=0 HTTP/1.1`;
      const head = [target, `Host: ${host}`, ...UPGRADE, `Authorization: Bearer ${mallory.token}`, '', ''];
      const sockets = Array.from({ length: 300 }, () => {
        const socket = connect(Number(port), hostname).pause();
        socket.on('error', () => {}); // it was cut off
        socket.write(head.join('\r\n'));
        return socket;
      });
      await delay(20_000);
      for (const socket of sockets) socket.destroy();
    },
    { stalls: false, mostGrowthMb: 400 },
  ),
  row(
    'opens more WebSockets than the limit',
    FRAMES,
    async (world) => {
      const { mallory, url } = world;
      const sockets = Array.from(
        { length: 1500 },
        () =>
          new WebSocket(`${url.replace('http', 'ws')}/v1/sessions/${mallory.session}/ws`, {
            headers: { authorization: `Bearer ${mallory.token}` },
          }),
      );
      const opened = await Promise.all(
        sockets.map((socket) => {
          socket.on('error', () => {}); // told by its end
          return Promise.race([happens(socket, 'open').then(() => 1), happens(socket, 'close').then(() => 0)]).catch(
            () => 0,
          );
        }),
      );
      expect(opened.reduce<number>((sum, one) => sum + one, 0)).toBeLessThan(1500);
      for (const socket of sockets) socket.terminate();
    },
    { stalls: false },
  ),
  row('uses the same id a thousand times, and answers unknown requests', FRAMES, async (world) => {
    const asked = [
      { type: 'input', id: 1, request: 4_294_967_296, text: 'x' },
      { type: 'cancel_input', id: 1, request: 0 },
      { type: 'interrupt', id: 1 },
      {
        type: 'permission',
        id: 1,
        permission: 'prm_0000000000000000',
        decision: { decision: 'allow', rule: { pattern: '**' } },
      },
      { type: 'execute', id: 1, code: '1', idempotencyKey: 'same' },
    ];
    await raw(world, async (write) => {
      for (let at = 0; at < 200; at++) for (const one of asked) await write(frame(1, text(one)));
    });
  }),
];

export const websocketRows: readonly Row[] = [...handshakes, ...frames];
