/** What was passed on to another server ends when that server has gone, and when it is silent for long. */

import { afterEach, beforeEach, expect, it, test, vi } from 'vitest';
import { ClusterPeerMonitor, ForwardSigner } from './peers.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const peer = { id: 'a', url: 'http://127.0.0.1:1' };
const here = async () => true;

test('a server that keeps its lock and never answers is given up', async () => {
  using monitor = new ClusterPeerMonitor({ isAlive: here, answers: () => new Promise(() => {}) });
  const { gone } = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(gone.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(gone.aborted).toBe(true);
  expect(gone.reason).toMatchObject({ message: expect.stringContaining('has not answered for') });
});

test('a server that answers is waited for, however long it takes, and is not polled all the time', async () => {
  const answers = vi.fn<() => Promise<boolean>>(here);
  using monitor = new ClusterPeerMonitor({ isAlive: here, answers });
  using watched = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(watched.gone.aborted).toBe(false);
  expect(answers.mock.calls.length).toBeLessThan(65);
});

test('a server whose lock is gone is given up at once', async () => {
  using monitor = new ClusterPeerMonitor({ isAlive: async () => false, answers: here });
  const { gone } = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(1500);
  expect(gone.aborted).toBe(true);
});

const signer = new ForwardSigner('a secret that the servers share');
const request = {
  method: 'POST',
  path: '/v1/sessions/ses_1/execute?x=1',
  authorization: 'Bearer t',
  cookie: undefined,
};
const hop = { from: 'one', client: '10.1.2.3' };

it('is accepted with the secret, for the request that it was created for', () => {
  expect(signer.read(request, signer.sign(request, hop))).toEqual(hop);
  expect(new ForwardSigner('a secret that the servers share').read(request, signer.sign(request, hop))).toEqual(hop);
});

it('is invalid for another request, with another secret, or after any change', () => {
  const mark = signer.sign(request, hop);
  const forged = new ForwardSigner('another').sign(request, hop);
  expect(signer.read({ ...request, path: '/v1/sessions/ses_2/execute?x=1' }, mark)).toBeUndefined();
  expect(signer.read({ ...request, method: 'DELETE' }, mark)).toBeUndefined();
  expect(signer.read({ ...request, authorization: 'Bearer u' }, mark)).toBeUndefined();
  expect(signer.read({ ...request, cookie: 'cella=x' }, mark)).toBeUndefined();
  const [text = '', mac = ''] = mark.split('.');
  const other = Buffer.from(JSON.stringify({ ...hop, client: '6.6.6.6' })).toString('base64url');
  const wrong = [forged, `${other}.${mac}`, `${text}.${'A'.repeat(43)}`, text, '', '.', `${mark}x`, 'x'.repeat(10_000)];
  for (const one of [...wrong, undefined]) expect(signer.read(request, one)).toBeUndefined();
});
