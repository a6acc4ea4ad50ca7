/** Code that stops, breaks and fills what it can reach: whoever waits for it is answered, and the server ends when it is told to. */

import { expect } from 'vitest';
import { newSession, pythonFlags, run as runOn } from '../faults/server/checked-session.ts';
import { readLog } from '../soak/log.ts';
import { Cella } from '../support/cli/command.ts';
import { python } from '../support/kernels/attack-code.ts';
import { Served } from '../support/servers/serve-process.ts';
import { everywhere, type Row } from './row.ts';
import type { WorldUser } from './world.ts';

const ANSWERED = 'Whoever waits for a process that code has stopped is answered.';
const ENDS = 'Nothing that code does holds up the end of the server.';
const STORED = 'What the server stores is out of reach of code, and a full disk is an error with a name.';

/** Longer than any wait for a stopped process may be, on a busy machine. */
const MOST_WAIT_MS = 60_000;

async function inTime(what: string, work: Promise<unknown>): Promise<void> {
  const began = performance.now();
  await work;
  expect.soft({ what, late: performance.now() - began > MOST_WAIT_MS }).toEqual({ what, late: false });
}

/** Stops whatever it sees, and itself at last. */
const STOPS_ALL = `
import os, signal
print('begun', flush=True)
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) not in (1, os.getpid()):
        try:
            os.kill(int(pid), signal.SIGSTOP)
        except OSError:
            pass
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass`;

/** A process beside the kernel that stops it as soon as its cell is over. */
const STOPS_KERNEL = `
import os, subprocess, sys
code = '''
import os, signal, sys, time
time.sleep(0.3)
os.kill(int(sys.argv[1]), signal.SIGSTOP)
open('stopped', 'w').close()
'''
beside = subprocess.Popen([sys.executable, '-c', code, str(os.getpid())])`;

/** A process beside the kernel that stops each process that comes, for a while: copies of the kernel are among them. */
const STOPS_COPIES = `
import os, subprocess, sys
code = '''
import os, signal, sys, time
known = {1, os.getpid(), *map(int, sys.argv[1:])}
open('watching', 'w').close()
until = time.monotonic() + 15
while time.monotonic() < until:
    for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):
        if pid not in known:
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                pass
'''
beside = subprocess.Popen([sys.executable, '-c', code, *filter(str.isdigit, os.listdir('/proc'))])`;

async function fileAppears(user: WorldUser, session: string, name: string): Promise<void> {
  await expect.poll(async () => (await user.call(`GET /v1/sessions/${session}/files`)).text).toContain(`"${name}"`);
}

async function goesOn(user: WorldUser, session: string): Promise<void> {
  expect(await user.value('6 * 7', { session, timeoutMs: MOST_WAIT_MS })).toBe(42);
  await user.call(`DELETE /v1/sessions/${session}`);
}

const forkBody = () => ({ body: { agentKey: `fork ${Math.random()}` } });

const stopped: Row[] = [
  {
    name: 'stops its kernel and all beside it in a cell, which a timeout, an interrupt, a restart and a deletion end',
    promise: ANSWERED,
    on: everywhere,
    stalls: false,
    attempt: async ({ mallory }) => {
      const rows = { timeout: undefined, interrupt: 'POST /interrupt', restart: 'POST /restart', deletion: 'DELETE ' };
      const stop = async (how: string, call: string | undefined) => {
        const session = await mallory.open({ graceMs: 500 });
        const timeoutMs = call === undefined ? 1000 : 600_000;
        const running = mallory.run(STOPS_ALL, { session, timeoutMs });
        const events = async () => (await mallory.call(`GET /v1/sessions/${session}/events`)).text;
        if (call !== undefined) {
          await expect.poll(events).toContain('begun');
          await inTime(how, mallory.call(call.replace(' ', ` /v1/sessions/${session}`)));
        }
        await inTime(`the cell, with ${how}`, running);
        if (how !== 'deletion') await goesOn(mallory, session);
      };
      await Promise.all(Object.entries(rows).map(([how, call]) => stop(how, call)));
    },
  },
  {
    name: 'stops its kernel when its cell is over, and has it saved, forked, hibernated and deleted',
    promise: ANSWERED,
    on: everywhere,
    stalls: false,
    attempt: async ({ mallory }) => {
      const calls = ['POST /save', 'POST /checkpoints', 'POST /fork', 'POST /hibernate', 'GET /variables', 'DELETE '];
      const tryCall = async (call: string) => {
        const session = await mallory.open({ graceMs: 500 });
        await mallory.value(STOPS_KERNEL, { session });
        await fileAppears(mallory, session, 'stopped');
        const [method = '', path = ''] = call.split(' ');
        const body = { '/fork': forkBody(), '/checkpoints': { body: { durable: true } } }[path] ?? {};
        await inTime(call, mallory.call(`${method} /v1/sessions/${session}${path}`, body));
        if (call !== 'DELETE ') await goesOn(mallory, session);
      };
      await Promise.all(calls.map(tryCall));
    },
  },
  {
    name: 'stops the copies of its kernel that saves, checkpoints, forks and rollbacks are made of',
    promise: ANSWERED,
    on: everywhere,
    stalls: false,
    attempt: async ({ mallory }) => {
      const session = await mallory.open({ graceMs: 500 });
      await mallory.value('kept = 1', { session });
      await mallory.call(`POST /v1/sessions/${session}/checkpoints`, { body: { name: 'live' } });
      await mallory.value(STOPS_COPIES, { session });
      await fileAppears(mallory, session, 'watching');
      const path = `/v1/sessions/${session}`;
      await inTime('save', mallory.call(`POST ${path}/save`));
      await inTime('checkpoint', mallory.call(`POST ${path}/checkpoints`, { body: { durable: true } }));
      await inTime('fork', mallory.call(`POST ${path}/fork`, forkBody()));
      const body = { code: 'kept = 2; 1 / 0', transaction: 'rollback_on_failure' };
      await inTime('rollback', mallory.call(`POST ${path}/execute`, { body }));
      await inTime('restore', mallory.call(`POST ${path}/checkpoints/live/restore`));
      await goesOn(mallory, session);
    },
  },
  {
    name: 'leaves stopped, deaf and waiting kernels behind when the server is told to end',
    promise: ENDS,
    on: everywhere,
    stalls: false,
    attempt: async (world) => {
      const { mallory } = world;
      const deaf =
        'import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\nprint("begun", flush=True)\nwhile True: pass';
      const [idle, ...others] = await Promise.all([1, 2, 3, 4].map(() => mallory.open({ graceMs: 500 })));
      await mallory.value(`lost = 1\n${STOPS_KERNEL}`, { session: idle });
      await fileAppears(mallory, idle ?? '', 'stopped');
      const cells = [STOPS_ALL, deaf, 'print("begun", flush=True)\ninput()'].map(async (code, at) => {
        await mallory.run(code, { session: others[at], timeoutMs: 600_000 }).catch(() => {}); // the server ends
      });
      for (const session of others)
        await expect
          .poll(async () => (await mallory.call(`GET /v1/sessions/${session}/events`)).text)
          .toContain('begun');
      const began = performance.now();
      expect(await world.restart()).toMatchObject({ signal: null });
      expect(performance.now() - began).toBeLessThan(MOST_WAIT_MS);
      await Promise.all(cells);
      for (const session of [idle, ...others]) await mallory.call(`DELETE /v1/sessions/${session}`);
    },
  },
];

const FILES = ['cella.db', 'cella.db-wal', 'cella.db-shm', 'daemon.json', 'daemon.sock', 'daemon.log', 'admin-token'];

/** Needs no world: the disk is its own. */
async function fillDisk(): Promise<void> {
  using cella = new Cella();
  const mount = `mount -t tmpfs -o size=48m none '${cella.dataDir}'; chmod 711 '${cella.dataDir}'; exec "$@"`;
  const around = ['unshare', '--mount', 'sh', '-ec', mount, 'sh'];
  const served = await Served.start(cella, [...pythonFlags, '--grace', '1'], { around });
  try {
    await fillDiskOf(served);
  } finally {
    await served.kill();
  }
}

async function fillDiskOf(served: Served): Promise<void> {
  const [hostile, neighbour] = [await newSession(served, 'hostile'), await newSession(served, 'neighbour')];
  await runOn(served, neighbour, 'kept = 1');
  const full = `
import os
file = os.open('full', os.O_CREAT | os.O_WRONLY)
for size in (1 << 20, 4096, 1):
    try:
        while True: os.write(file, bytes(size))
    except OSError as error:
        print(error)
os.close(file)`;
  const codeOf = (asked: Promise<unknown>) => asked.then(() => 'ok').catch((error) => String(error.code ?? error));
  await codeOf(runOn(served, hostile, full));
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
  const path = `/v1/sessions/${neighbour}`;
  const calls = [
    () => served.ask(`PUT ${path}/files/content?path=a`, { body: 'x'.repeat(100_000) }),
    () => served.ask(`POST ${path}/checkpoints`, { body: { durable: true } }),
    () => newSession(served, 'another'),
  ];
  for (const call of calls) expect(['STORAGE_FAILED', 'ok']).toContain(await codeOf(call()));
  // Freed by nothing but what its owner may do.
  await served.ask(`DELETE /v1/sessions/${hostile}/files?path=full`);
  await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('ok');
  await expect.poll(() => codeOf(runOn(served, neighbour, 'kept'))).toBe('ok');
  expect(await runOn(served, neighbour, 'kept')).toMatchObject({ value: 1 });
  const numbers = (await readLog(served, neighbour)).map(({ seq }) => seq);
  expect(numbers).toEqual(numbers.map((_, at) => at + 1));
  await codeOf(runOn(served, hostile, full));
  served.started.child.kill('SIGTERM');
  expect(typeof (await served.started.ended)).toBe('number'); // and no signal had to end it
}

const stored: Row[] = [
  {
    name: 'deletes, moves, empties and replaces what the server stores and logs',
    promise: STORED,
    on: everywhere,
    quick: true,
    attempt: async (world) => {
      const code = `
import shutil
verdicts = {}
for name in ${python(FILES)}:
    path = ${python(world.dataDir)} + '/' + name
    verdicts.update({'remove ' + name: attempt(os.remove, path), 'move ' + name: attempt(os.rename, path, 'moved'),
                     'empty ' + name: attempt(os.truncate, path, 0), 'write ' + name: attempt(write, path)})
verdicts['the folder'] = attempt(os.rename, ${python(world.dataDir)}, ${python(`${world.dataDir}-moved`)})
verdicts`;
      expect(await world.mallory.through(code)).toEqual({});
      expect((await world.ask('GET /ready')).status).toBe(200);
    },
  },
  {
    name: 'fills the disk that the server has its data on',
    promise: STORED,
    on: ['subprocess'],
    stalls: false,
    attempt: fillDisk,
  },
];

export const faultRows: readonly Row[] = [...stopped, ...stored];
