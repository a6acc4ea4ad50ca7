/** A process that hosts sessions and comes to a bad end: it tells, line by line, what it has acknowledged. */

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HostedSession } from '../../src/daemon/sessions/contract.ts';
import { LocalSessionHost } from '../../src/daemon/sessions/host.ts';
import { CellaError } from '../../src/protocol/errors.ts';
import type { SessionEvent } from '../../src/protocol/http/events.ts';
import { shutdown } from '../../src/session/executors.ts';
import { storageFromBootstrap } from '../../src/storage/bootstrap.ts';

const [role = '', place = '', mark = ''] = process.argv.slice(2);
const { dataDir, config } = JSON.parse(place);
const storage = await storageFromBootstrap(config);
const host = await LocalSessionHost.open({ storage, dataDir, session: { saveAfterMs: 20 } });

function tell(line: object): void {
  writeFileSync(1, `${JSON.stringify(line)}\n`);
}

async function open(agentKey: string): Promise<HostedSession> {
  return await host.open((await host.create('local', { agentKey })).session.id);
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error instanceof CellaError ? error.toJSON() : String(error);
  }
}

/** Tells the number of each event that it was sent. */
async function watch(hosted: HostedSession): Promise<void> {
  const { last } = await hosted.position();
  for await (const item of hosted.events({ after: last })) {
    if (item.type !== 'floor') tell({ seen: [hosted.id, item.seq, item.type] });
  }
}

async function work(hosted: HostedSession, key: string): Promise<void> {
  void watch(hosted);
  for (let round = 0; ; round++) {
    const idempotencyKey = `${mark}-${key}-${round}`;
    const code = `print('begun', flush=True)\nfor n in range(20): print(n, flush=True)\n'${idempotencyKey}'`;
    const keyed = round % 2 === 1;
    const { execution, result } = await hosted.execute(code, keyed ? { idempotencyKey } : {});
    tell({ acknowledged: [hosted.id, execution, result.value], ...(keyed ? { idempotencyKey, code } : {}) });
  }
}

async function load(): Promise<void> {
  const keys = ['a', 'b', 'c'];
  const all = await Promise.all(keys.map(open));
  tell({ sessions: all.map(({ id }) => id) });
  await Promise.all(all.map((hosted, index) => work(hosted, keys[index] ?? '')));
}

async function question(hosted: HostedSession): Promise<number> {
  for await (const item of hosted.events()) if (item.type === 'input_request') return item.id;
  throw new Error('nobody asked');
}

/** Everything that still fits on the disk, to the last bytes. */
function fillDisk(filler: string): void {
  for (let size = 1 << 20; size >= 1; size >>= 1) {
    try {
      for (;;) writeFileSync(filler, Buffer.alloc(size, 1), { flag: 'a' });
    } catch {} // smaller and smaller, until nothing fits
  }
}

/** On a disk of its own. */
async function full(): Promise<void> {
  const hosted = await open('full');
  await hosted.execute('x = 1');
  const filler = join(dataDir, 'filler');
  const running = failure(hosted.execute("input()\nwhile True: print('x' * 50_000, flush=True)"));
  const asked = await question(hosted);
  fillDisk(filler);
  await hosted.answerInput(asked, '').catch(() => {}); // the code has it, and the log does not
  const failed = await running;
  const again = await failure(hosted.execute("print('y' * 200_000)"));
  const { last } = await hosted.position();
  rmSync(filler);
  let told: SessionEvent | undefined;
  for await (const item of hosted.events({ after: last })) {
    if (item.type === 'execution_failed') told = item;
    if (told) break;
  }
  const { result } = await hosted.execute('x');
  const events: SessionEvent[] = [];
  const end = (await hosted.position()).last;
  for await (const item of hosted.events()) {
    if (item.type !== 'floor') events.push(item);
    if (item.type !== 'floor' && item.seq === end) break;
  }
  const short = events.map(({ seq, type, ...rest }) => [seq, type, 'execution' in rest ? rest.execution : '']);
  tell({ failed, again, value: result.value, events: short });
  await host.close();
  await storage.close();
  await shutdown();
}

await (role === 'load' ? load() : full());
