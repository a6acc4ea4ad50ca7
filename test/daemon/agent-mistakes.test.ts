/**
 * Mistakes of earlier systems about executors, keys and permissions, each with the test that guards against it. Those
 * that no other suite has are here.
 *
 * | mistake | test |
 * |---|---|
 * | the socket was open to any local user | here |
 * | the last connection to the executor's socket won | here |
 * | any local user got the token | contract/agent-enclosure: a gateway that the kernel does not see; canary |
 * | the pool passed the daemon's whole environment | executors: has none of the server's variables |
 * | a missing key was an empty string | credentials: that is missing is told so |
 * | a failed decrypt fell through to the shared key | credentials: opens for no other user or provider |
 * | a failed sudo ran as the daemon's user | faults/layers: where a layer of the sandbox is missing, SANDBOX_UNAVAILABLE and nothing runs |
 * | the client said who had decided | permissions-http: is not decided in the name of another |
 * | any event name could be emitted with any session id | executors: an executor that speaks for another; here |
 * | a 30 s call timeout undercut longer prompts | here |
 * | stop refused while a permission was waiting | executors: is stopped while a permission waits |
 * | stacks crossed the wire | protocol/rpc/peer: bring the code … and no stack |
 * | signal death counted as exit 0 | executors: that is killed in mid-turn; contract/environments-exec |
 * | non-zero exits were ignored | executors: that exits with a code; contract/execution-environment |
 * | an old transcript overwrote a newer one | contract/execution-environment: never overwrites a newer transcript |
 * | an empty file read as missing | contract/environments-files: an empty file is empty and not missing |
 * | `/workspace-evil` passed the `/workspace` check, and so did symlinks | contract/environments-files: outside of its folders |
 * | commands were joined into shell strings | contract/environments-exec: no shell reads them |
 * | WebSockets were open to anyone | http-doors: open no WebSocket; http-websocket: is refused to other sites |
 */

import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { ReportMessage } from '../../src/protocol/agent/rpc.ts';
import { RpcPeer } from '../../src/protocol/rpc/peer.ts';
import { portOfStreams } from '../../src/protocol/rpc/port.ts';
import { makeGatewayFolder } from '../../src/sandbox/gateway-folder.ts';
import { peerPair } from '../support/rpc-pair.ts';
import { scratchFolder } from '../support/session.ts';

afterEach(() => void vi.useRealTimers());

const modeOf = (path: string) => statSync(path).mode & 0o777;

test('the socket was open to any local user', async () => {
  const parent = join(await scratchFolder(), 'gates');
  const before = process.umask(0);
  try {
    makeGatewayFolder(parent);
    expect(modeOf(parent)).toBe(0o700);
    // Also where somebody has made it before, and left it open.
    chmodSync(parent, 0o777);
    expect(makeGatewayFolder(parent)).not.toBe(makeGatewayFolder(parent));
    expect(modeOf(parent)).toBe(0o700);
  } finally {
    process.umask(before);
  }
});

test('the last connection won: two executors have a connection each, and none hears of the other', async () => {
  const Whose = { method: 'whose', params: z.object({}), result: z.object({ name: z.string() }) } as const;
  const [one, two] = [peerPair(), peerPair()];
  one.far.handle(Whose, () => ({ name: 'one' })).start();
  one.near.start();
  two.far.handle(Whose, () => ({ name: 'two' })).start();
  two.near.start();
  expect(await Promise.all([one.near.call(Whose, {}), two.near.call(Whose, {})])).toEqual([
    { name: 'one' },
    { name: 'two' },
  ]);
  two.near.close();
  expect(await one.near.call(Whose, {})).toEqual({ name: 'one' });
  one.near.close();
});

test('any event name could be emitted with any session id: an executor tells events of an agent, and no others', () => {
  const turn = 'trn_0000000000000000';
  const claim = { session_token: `cst_${'a'.repeat(16)}_${'a'.repeat(43)}`, session_id: 'ses_0000000000000000' };
  const takes = (event: object) =>
    ReportMessage.params.safeParse({ ...claim, task_id: turn, sequence: 1, event: { turn, ...event } }).success;
  expect(takes({ type: 'agent_notice', text: 'well' })).toBe(true);
  expect(takes({ type: 'turn_started', prompt: 'x', agent: 'claude', mode: 'ask' })).toBe(false);
  expect(takes({ type: 'turn_ended', status: 'completed' })).toBe(false);
  expect(takes({ type: 'permission_requested', id: 'prm_0000000000000000', tool: 'Bash', summary: 'x' })).toBe(false);
  expect(takes({ type: 'permission_resolved', id: 'prm_0000000000000000', outcome: 'allowed', by: 'local' })).toBe(
    false,
  );
  expect(takes({ type: 'anything', text: 'well' })).toBe(false);
});

test('a 30 s call timeout undercut longer prompts', async () => {
  vi.useFakeTimers();
  const Long = { method: 'long', params: z.object({}), result: z.object({ done: z.boolean() }) } as const;
  const [there, back] = [new PassThrough(), new PassThrough()];
  const near = new RpcPeer(portOfStreams(back, there));
  const far = new RpcPeer(portOfStreams(there, back));
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<{ done: boolean }>();
  far
    .handle(Long, () => {
      asked.resolve();
      return answer.promise;
    })
    .start();
  near.start();
  const called = near.call(Long, {});
  await asked.promise;
  await vi.advanceTimersByTimeAsync(24 * 3_600_000);
  answer.resolve({ done: true });
  expect(await called).toEqual({ done: true });
  near.close();
});
