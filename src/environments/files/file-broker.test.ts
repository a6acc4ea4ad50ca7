import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { FileBroker, FileBrokers, RequestNotStarted, RequestStuck } from './file-broker.ts';

const DEADLINE_MS = 30_000;
const AT_ONCE = 16;
const EACH = 4;

/** A broker whose process answers when the test calls `answer`. */
function setUp(ended: () => void = () => {}) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const kill = vi.fn();
  const child = Object.assign(new EventEmitter(), { kill });
  const onEnd = vi.fn(ended);
  const broker = new FileBroker({ child: child as never, stdin, stdout, onEnd });
  const sent: { id: number; op: string }[] = [];
  stdin.on('data', (lines: Buffer) => {
    for (const line of lines.toString().trim().split('\n')) sent.push(JSON.parse(line));
  });
  const answer = async (op: string, result: unknown) => {
    const { id } = sent.find((one) => one.op === op) ?? { id: 0 };
    stdout.write(`${JSON.stringify({ id, result })}\n`);
    await turn();
  };
  /** Each request is of another user, unless `whose` is given. */
  const ask = (op: string, root: object | null = {}, whose = op) => {
    const asked = broker.ask({ op, args: {}, whose, ...(root && { root }) }, z.unknown());
    asked.catch(() => {}); // a test awaits only the requests that it checks
    return asked;
  };
  return { broker, sent, stdout, child, kill, onEnd, answer, ask };
}

const turn = () => new Promise(setImmediate);
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

describe('the file broker', () => {
  it('handles as many requests at a time as it has threads; the deadline of a request begins with its turn', async () => {
    const { ask, sent, answer, kill } = setUp();
    const asked = Array.from({ length: AT_ONCE + 1 }, (_, number) => ask(`op${number}`));
    await turn();
    expect(sent).toHaveLength(AT_ONCE);
    vi.advanceTimersByTime(DEADLINE_MS - 1);
    for (let number = 0; number < AT_ONCE; number++) await answer(`op${number}`, number);
    expect(sent).toHaveLength(AT_ONCE + 1);
    vi.advanceTimersByTime(DEADLINE_MS - 1);
    await answer(`op${AT_ONCE}`, 'last');
    expect(await asked.at(-1)).toBe('last');
    expect(kill).not.toHaveBeenCalled();
  });

  it('a stuck request fails alone: running ones continue, and new ones go to another broker', async () => {
    const { broker, ask, answer, kill, onEnd } = setUp();
    const left = broker.hold();
    const stuck = ask('stuck');
    vi.advanceTimersByTime(DEADLINE_MS / 2);
    const others = Array.from({ length: AT_ONCE - 1 }, (_, number) => ask(`op${number}`));
    const late = ask('late');
    vi.advanceTimersByTime(DEADLINE_MS / 2);
    await expect(stuck).rejects.toBeInstanceOf(RequestStuck);
    await expect(late).rejects.toBeInstanceOf(RequestNotStarted);
    await expect(ask('new')).rejects.toBeInstanceOf(RequestNotStarted);
    expect(onEnd).toHaveBeenCalled();
    await answer('op0', 'answered');
    expect(await others[0]).toBe('answered');
    // Only this broker can finish an operation that it holds.
    const held = ask('commit', null);
    await turn();
    await answer('commit', 'kept');
    expect(await held).toBe('kept');
    expect(kill).not.toHaveBeenCalled();
    left();
    expect(kill).toHaveBeenCalledWith('SIGKILL');
  });

  it('a stuck request keeps its thread until it returns, or the process ends', async () => {
    for (const end of ['answer', 'exit'] as const) {
      const { ask, answer, child } = setUp();
      const stuck = ask('stuck');
      vi.advanceTimersByTime(DEADLINE_MS);
      const error = (await stuck.catch((thrown: unknown) => thrown)) as RequestStuck;
      let over = false;
      void error.over.then(() => {
        over = true;
      });
      await turn();
      expect(over).toBe(false);
      if (end === 'exit') child.emit('exit');
      else await answer('stuck', null);
      await turn();
      expect(over).toBe(true);
    }
  });

  it('a user has 4 of the threads, including stuck ones; others are not affected', async () => {
    const { broker, ask, sent, answer, kill } = setUp();
    const left = broker.hold();
    const first = Array.from({ length: 2 * EACH }, (_, number) => ask(`m${number}`, null, 'mallory'));
    const other = ask('other');
    await turn();
    expect(sent.map(({ op }) => op)).toEqual(['m0', 'm1', 'm2', 'm3', 'other']);
    await answer('m0', 'done');
    expect(await first[0]).toBe('done');
    expect(sent.at(-1)?.op).toBe('m4');
    await answer('other', 'done');
    expect(await other).toBe('done');
    vi.advanceTimersByTime(DEADLINE_MS);
    // All threads of this user are stuck: a request that waits for one of them would wait forever.
    await Promise.all(first.slice(1, EACH + 1).map((asked) => expect(asked).rejects.toBeInstanceOf(RequestStuck)));
    const never = [...first.slice(EACH + 1), ask('more', null, 'mallory')];
    await Promise.all(never.map((asked) => expect(asked).rejects.toMatchObject({ code: 'STORAGE_FAILED' })));
    const held = ask('commit', null, 'victoria');
    await answer('commit', 'kept');
    expect(await held).toBe('kept');
    expect(kill).not.toHaveBeenCalled();
    left();
  });

  it('a slow request is reported as late, not as a broken disk', async () => {
    const { broker, ask } = setUp();
    const left = broker.hold();
    const late = ask('late');
    vi.advanceTimersByTime(DEADLINE_MS);
    await expect(late).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
    left();
  });

  it('of replaced brokers two continue; the oldest is ended, and its work fails with an error', async () => {
    const started: ReturnType<typeof setUp>[] = [];
    const brokers = new FileBrokers(async (onEnd) => {
      started.push(setUp(onEnd));
      return started.at(-1)?.broker as FileBroker;
    });
    for (let round = 0; round < 3; round++) {
      const broker = await brokers.get();
      expect(broker).toBe(started[round]?.broker);
      broker.hold();
      const stuck = started[round]?.ask('stuck');
      vi.advanceTimersByTime(DEADLINE_MS);
      await expect(stuck).rejects.toBeInstanceOf(RequestStuck);
    }
    expect(started.map(({ kill }) => kill.mock.calls.length)).toEqual([1, 0, 0]);
    const uploads = started.map(({ ask }) => ask('commit', null));
    await expect(uploads[0]).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining('in 2 others after it'),
    });
    for (const number of [1, 2]) {
      await started[number]?.answer('commit', 'kept');
      expect(await uploads[number]).toBe('kept');
    }
  });

  it.each([
    ['too long', Buffer.alloc(2 * 1024 * 1024, 'x')],
    ['no answer', Buffer.from('[]\n')],
    ['no JSON', Buffer.from('{"id":\n')],
  ])('is ended where what it says is %s', async (_name, said) => {
    const { ask, stdout, kill } = setUp();
    const asked = ask('one');
    stdout.write(said);
    await turn();
    await expect(asked).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(kill).toHaveBeenCalledWith('SIGKILL');
  });
});
