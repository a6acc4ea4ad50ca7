/** Coding agents through the client: prompts, their events and endings, stops and decisions, with turns that are scripted. */

import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { ClientSession } from '../../../src/client/client-session.ts';
import type { Conversation } from '../../../src/protocol/conversation.ts';
import type { RunTurn } from '../../../src/server/turns/session-turns.ts';
import { connectTo } from '../../support/servers/client.ts';
import { TestServer } from '../../support/servers/server.ts';

const scripted: RunTurn = async ({ prompt, id: turn, emit, permit, signal }) => {
  await emit({ type: 'item_completed', turn, item: 'a', kind: 'message', status: 'completed', text: prompt });
  if (prompt === 'fail') throw new Error('it broke');
  if (prompt !== 'ask') return { status: 'completed' };
  const { outcome } = await permit({ tool: 'Bash', summary: 'make', input: { command: 'make' } });
  if (signal.aborted) return { status: 'cancelled' };
  await emit({ type: 'agent_notice', turn, text: outcome });
  return { status: 'completed' };
};

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ agents: { run: scripted }, hosting: { retention: { maxBytes: 100_000 } } });
});

let made = 0;
const open = async () => await (await connectTo(server, 'url')).open({ agentKey: `prompt ${made++}` });

/** The turn that runs waits for it. */
async function allowWhenAsked(session: ClientSession): Promise<void> {
  const pending = () => session.permissions({ state: 'pending' });
  const [{ id }] = await vi.waitUntil(async () => nonEmpty(await pending()), { timeout: 30_000 });
  await session.decidePermission(id, { decision: 'allow' });
}

const nonEmpty = <T>(some: readonly T[]) => (some.length > 0 ? (some as readonly [T, ...T[]]) : undefined);

describe('session.prompt', () => {
  it('yields only the events of its own turn, and the outcome', async () => {
    const session = await open();
    const [one, other] = [session.prompt('ask'), session.prompt('other')];
    const types: string[] = [];
    for await (const event of other) {
      types.push(event.type === 'item_completed' ? (event.text ?? '') : event.type);
      if (event.type === 'turn_queued') await allowWhenAsked(session);
    }
    expect(types).toEqual(['turn_queued', 'turn_started', 'other', 'turn_ended']);
    expect(await other.turn).toMatchObject({ status: 'completed', prompt: 'other', by: 'local' });
    // Nobody has followed this one.
    expect(await one.turn).toMatchObject({ status: 'completed', prompt: 'ask' });
  });

  it('queue at the server in the order of the calls, and a failing one does not block the others', async () => {
    const session = await open();
    const words = Array.from({ length: 12 }, (_, at) => `word ${at}`);
    const [gone, ...turns] = [
      session.prompt('gone', { signal: AbortSignal.abort() }),
      ...words.map((word) => session.prompt(word)),
    ];
    await expect(gone.turn).rejects.toMatchObject({ code: 'ABORTED' });
    const ended = await Promise.all(turns.map(({ turn }) => turn));
    const began = ended.toSorted(
      (one, other) => (one.startedAt ?? 0) - (other.startedAt ?? 0) || (one.id < other.id ? -1 : 1),
    );
    expect(began.map(({ prompt }) => prompt)).toEqual(words);
  });

  it('reports a failure as an outcome', async () => {
    const session = await open();
    expect(await session.prompt('fail').turn).toMatchObject({ status: 'failed', error: { code: expect.any(String) } });
  });

  it('continues when a permission is decided, and stops by its signal while one is pending', async () => {
    const session = await open();
    const notices: string[] = [];
    for await (const event of session.prompt('ask')) {
      if (event.type === 'permission_requested') await session.decidePermission(event.id, { decision: 'allow' });
      if (event.type === 'agent_notice') notices.push(event.text);
    }
    expect(notices).toEqual(['allowed']);
    const stop = new AbortController();
    const stopped = session.prompt('ask', { signal: stop.signal });
    for await (const event of stopped) if (event.type === 'permission_requested') stop.abort();
    expect(await stopped.turn).toMatchObject({ status: 'cancelled' });
    expect(await session.permissions({ state: 'pending' })).toEqual([]);
    const named = session.prompt('ask');
    for await (const event of named) {
      if (event.type === 'permission_requested') expect(await session.stop()).toEqual([event.turn]);
    }
    expect(await named.turn).toMatchObject({ status: 'cancelled' });
  });

  it('reduces to the same state as the server shows after a reload, from any event on', async () => {
    const session = await open();
    await session.prompt('before').turn;
    await session.run('1 + 1');
    const states = session.conversations()[Symbol.asyncIterator]();
    const next = async (): Promise<Conversation | undefined> => (await states.next()).value;
    let live = await next();
    expect(live?.state).toMatchObject({ status: 'idle', turns: [{ prompt: 'before', status: 'completed' }] });
    const turn = session.prompt('ask');
    const seen: unknown[] = [];
    while (live && (live.state.turns.length < 2 || live.state.status !== 'idle')) {
      live = await next();
      seen.push(live?.state.status);
      const asked = live?.state.permissions.find(({ outcome }) => outcome === 'pending');
      if (asked) await session.decidePermission(asked.id, { decision: 'allow' }).catch(() => {}); // told twice
    }
    await turn.turn;
    expect(seen).toContain('waiting');
    const { text } = await server.call(`GET /v1/sessions/${session.id}/conversation`);
    expect(JSON.parse(text)).toEqual(live);
    expect(live?.state).toMatchObject({
      turns: [
        { prompt: 'before' },
        { prompt: 'ask', status: 'completed', items: [{ text: 'ask' }], notices: ['allowed'] },
      ],
      permissions: [{ tool: 'Bash', outcome: 'allowed', by: 'local' }],
    });
    await states.return?.();
  });

  it('ends for a late reader if the server no longer has its events', async () => {
    const session = await open();
    const turn = session.prompt('long ago');
    await turn.turn;
    const { last } = await session.eventPage({ after: Number.MAX_SAFE_INTEGER });
    await session.run('for n in range(10): display("x" * 20_000)');
    await vi.waitUntil(async () => (await session.eventPage()).trimmedThrough > last, { timeout: 30_000 });
    const seen: unknown[] = [];
    for await (const event of turn) seen.push(event);
    expect(seen).toEqual([]);
    expect(await turn.turn).toMatchObject({ status: 'completed', prompt: 'long ago' });
  });

  it('is refused if the signal was aborted before, and has no transcript before its first turn', async () => {
    const session = await open();
    await expect(session.prompt('one', { signal: AbortSignal.abort() }).turn).rejects.toMatchObject({
      code: 'ABORTED',
    });
    await expect(session.transcript()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
