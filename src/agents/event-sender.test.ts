import { describe, expect, test } from 'vitest';
import type { AgentEvent } from '../protocol/agent-events.ts';
import { EventSender } from './event-sender.ts';

const turn = 'trn_0000000000000001';
const piece = (item: string, text: string): AgentEvent => ({ type: 'item_delta', turn, item, text });
const notice = (text: string): AgentEvent => ({ type: 'agent_notice', turn, text });

function slowly(): { sent: AgentEvent[]; emit: (event: AgentEvent) => Promise<void>; release: () => void } {
  const sent: AgentEvent[] = [];
  let waiting: (() => void) | undefined;
  const emit = (event: AgentEvent) =>
    new Promise<void>((resolve) => {
      sent.push(event);
      waiting = resolve;
    });
  return { sent, emit, release: () => waiting?.() };
}

describe('events that are sent', () => {
  test('while one is being sent, pieces of the same text are joined, and the order stays', async () => {
    const { sent, emit, release } = slowly();
    const outbox = new EventSender(emit);
    await outbox.send([
      notice('first'),
      piece('a', '1'),
      piece('a', '2'),
      piece('b', '3'),
      notice('x'),
      piece('b', '4'),
    ]);
    while (sent.length < 5) {
      release();
      await Promise.resolve();
    }
    release();
    await outbox.flush();
    expect(sent).toEqual([notice('first'), piece('a', '12'), piece('b', '3'), notice('x'), piece('b', '4')]);
  });

  test('a slow reader slows the writer', async () => {
    const { emit } = slowly();
    const outbox = new EventSender(emit);
    const full = outbox.send(Array.from({ length: 1000 }, (_, at) => notice(`${at}`)));
    await expect(Promise.race([full, Promise.resolve('waits')])).resolves.toBe('waits');
  });

  test('after the receiver has gone, the sender gets an error', async () => {
    const outbox = new EventSender(() => Promise.reject(new Error('gone')));
    await outbox.send([notice('a')]).catch(() => {});
    await expect(outbox.send([notice('b')]).then(() => outbox.flush())).rejects.toThrow('gone');
  });
});
