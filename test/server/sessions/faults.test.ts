/** What becomes of sessions whose server is killed, or whose Redis goes away. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { isExecutionEnd, type SessionEvent } from '../../../src/protocol/session-events.ts';
import { Child } from '../../faults/storage/child-processes.ts';
import { isAlive } from '../../support/processes/processes.ts';
import { execute } from '../../support/servers/executions.ts';
import {
  logged,
  newPlace,
  next,
  numbersOf,
  openServerSession,
  openSessionManager,
  type Place,
  until,
  upTo,
  useRedis,
} from './session-managers.ts';

const redis = useRedis();
const program = fileURLToPath(new URL('session-child.ts', import.meta.url));

async function startChild(place: Place): Promise<Child> {
  const storage = await place.open();
  const config = storage.toBootstrapConfig();
  await storage.close();
  return new Child('load', JSON.stringify({ dataDir: place.dataDir, config }), '', [], program);
}

/** Every execution that began has ended once, and nothing of it comes after its ending. */
function expectEnded(events: readonly SessionEvent[]): void {
  const open = new Set<string>();
  const ended = new Set<string>();
  for (const event of events) {
    if (event.type === 'execution_started') open.add(event.execution);
    else if (isExecutionEnd(event)) {
      expect(open.delete(event.execution), `${event.type} of ${event.execution}`).toBe(true);
      ended.add(event.execution);
    } else if ('execution' in event && event.execution && !('background' in event)) {
      expect(open.has(event.execution), `${event.type} of ${event.execution}`).toBe(true);
    }
  }
  expect([...open]).toEqual([]);
}

test('running executions are marked as interrupted once, however often the server restarts', async () => {
  const place = await newPlace('file');
  const child = await startChild(place);
  const { sessions } = (await child.next()) as { sessions: string[] };
  while (!('seen' in (await child.next())));
  await child.kill();
  const lasts: number[] = [];
  for (const _ of upTo(3)) {
    const { manager, end } = await openSessionManager(place);
    const serverSession = await manager.open(sessions[0] ?? '');
    lasts.push((await serverSession.position()).last);
    expectEnded(await logged(serverSession));
    await end();
  }
  expect(new Set(lasts).size).toBe(1);
});

test('a request whose server was killed while it ran does not run again, and says so', async () => {
  const place = await newPlace('file');
  const { storage, serverSession, end } = await openServerSession(place, { agentKey: 'k' });
  const code = "print('on', flush=True)\nimport time; time.sleep(600)";
  const running = execute(serverSession, code, { idempotencyKey: 'once' });
  running.catch(() => {});
  const { execution } = await next(serverSession, 'stdout');
  // As a second server would find it, while the first has not come to write down any ending.
  const documents = (await storage.documents.list('idempotency')).documents;
  const marks = await storage.events.last('k');
  await serverSession.interrupt();
  await running;
  await end();
  const after = await place.open();
  await after.events.trim('k', {});
  for (const { id, value } of documents) await after.documents.put('idempotency', id, value);
  await after.events.delete('k');
  await after.events.append('k', [
    { type: 'execution_started', execution, code, request: documents[0]?.id.split('/')[1] },
    { type: 'stdout', text: 'on\n', execution },
  ]);
  await after.documents.delete('session-marks', serverSession.id);
  await after.close();
  expect(marks).toBeGreaterThan(1);
  const { manager } = await openSessionManager(place);
  const later = await manager.open(serverSession.id);
  expect((await logged(later)).at(-1)).toMatchObject({ type: 'interrupted', execution, seq: 3 });
  await expect(execute(later, code, { idempotencyKey: 'once' })).rejects.toMatchObject({ code: 'EXECUTION_LOST' });
});

test('an outage of Redis fails running code; afterwards the log says so, and numbers have no gaps', async () => {
  const { serverSession } = await openServerSession(await newPlace('redis'));
  await execute(serverSession, 'x = 1');
  const running = execute(serverSession, "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)");
  running.catch(() => {}); // it may fail before anybody looks
  await next(serverSession, 'stdout');
  await redis().stop();
  await expect(running).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
  await redis().restart();
  const { last } = await serverSession.position();
  const failed = await until(
    async () => (await logged(serverSession).catch(() => [])).findLast(({ type }) => type === 'execution_failed'),
    (event) => event !== undefined,
  );
  expect(failed).toMatchObject({ error: { code: 'STORAGE_UNREACHABLE' } });
  expect(last).toBeGreaterThan(0);
  expect((await execute(serverSession, 'x')).result.value).toBe(1);
  const events = await logged(serverSession);
  expect(numbersOf(events)).toEqual(upTo(events.length));
  expectEnded(events);
});

test('a server that shuts down while its storage is unreachable says so, and ends its kernels and readers', async () => {
  const { serverSession, manager } = await openServerSession(await newPlace('redis'));
  await execute(serverSession, 'x = 1');
  const { pid } = await serverSession.session();
  const caughtUp = Promise.withResolvers<void>();
  const read = async () => {
    for await (const { type } of serverSession.events()) if (type === 'result') caughtUp.resolve();
  };
  const reader = read();
  reader.catch(() => {});
  await caughtUp.promise;
  await redis().stop();
  try {
    await expect(manager.close()).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
    await expect(reader).rejects.toMatchObject({ code: 'SERVER_STOPPING' });
    await expect.poll(() => isAlive(pid)).toBe(false);
  } finally {
    await redis().restart();
  }
});

test('code that ends during an outage of Redis is logged afterwards, and its key runs nothing twice', async () => {
  const { serverSession } = await openServerSession(await newPlace('redis'));
  await execute(serverSession, 'n = 0');
  const { cwd } = await serverSession.session();
  const code = 'n += 1\nimport os, time\nwhile not os.path.exists("go"): time.sleep(0.01)\nn';
  const running = execute(serverSession, code, { idempotencyKey: 'once' });
  running.catch(() => {}); // it may fail before anybody looks
  const { execution } = await until(
    async () =>
      (await logged(serverSession)).findLast((event) => event.type === 'execution_started') ?? { execution: '' },
    (event) => 'request' in event,
  );
  await redis().stop();
  writeFileSync(join(cwd, 'go'), '');
  await expect(running).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
  await redis().restart();
  const again = await until(
    () => execute(serverSession, code, { idempotencyKey: 'once' }).catch((error) => error),
    (outcome) => outcome.code !== 'STORAGE_UNREACHABLE',
  );
  expect(again).toMatchObject({ code: 'EXECUTION_LOST', details: { execution } });
  expect((await execute(serverSession, 'n')).result.value).toBe(1);
  const events = await logged(serverSession);
  expect(numbersOf(events)).toEqual(upTo(events.length));
  expectEnded(events);
});
