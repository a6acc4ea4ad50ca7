/** Tools that require approval, in sessions of a server: who is asked, whose answer counts, and when it is a no. */

import { beforeAll, describe, expect, it } from 'vitest';
import type { ClientSession, UseOptions } from '../../../src/client/index.ts';
import { SAY } from '../../support/servers/approved-tool.ts';
import { connectTo, sharedServer } from '../../support/servers/client.ts';
import type { TestServer } from '../../support/servers/server.ts';

type Respond = NonNullable<UseOptions['approve']>;

let server: TestServer;
beforeAll(async () => {
  server = await sharedServer();
  const { id } = await server.session({ agentKey: 'approvals' });
  await server.call(`POST /v1/sessions/${id}/tools`, { body: { yaml: SAY } });
});

let made = 0;
const newSession = async (settings: Record<string, unknown> = {}) =>
  (await server.session({ agentKey: `approvals ${made++}`, ...settings })).id;

const withResponder = async (id: string, approve?: Respond): Promise<ClientSession> => {
  const client = await connectTo(server, 'url');
  return await client.session(id, approve === undefined ? {} : { approve });
};

/** Answers when it is told to. */
function person() {
  const asked = Promise.withResolvers<Parameters<Respond>[0]>();
  const answer = Promise.withResolvers<Awaited<ReturnType<Respond>>>();
  const approve: Respond = (request) => {
    asked.resolve(request);
    return answer.promise;
  };
  return { approve, asked: asked.promise, answer: answer.resolve };
}

const say = 'tools.say("hi").strip()';

async function answersIn(session: ClientSession): Promise<unknown[]> {
  const { events } = await session.eventPage();
  return events.filter(({ type }) => type === 'permission_resolved');
}

describe('a tool that requires approval', () => {
  it('is refused at once without a responder', async () => {
    const session = await withResponder(await newSession());
    const { error } = await session.run(say);
    expect(error).toMatchObject({ name: expect.stringMatching(/Permission/) });
    expect(error?.message).toContain('nobody can be asked');
    expect(await answersIn(session)).toEqual([]);
  });

  it('runs when a person approves, who sees exactly what it would do', async () => {
    const id = await newSession();
    const { approve, asked, answer } = person();
    const session = await withResponder(id, approve);
    const running = session.run(say);
    expect(await asked).toMatchObject({ tool: 'say', arguments: { words: ['hi'] }, summary: 'echo hi' });
    answer(true);
    expect(await running).toMatchObject({ status: 'ok', value: 'hi' });
    const { events } = await session.eventPage();
    const started = events.find(({ type }) => type === 'execution_started');
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'permission_requested', execution: Object(started).execution }),
    );
    expect(await answersIn(session)).toMatchObject([{ outcome: 'allowed', by: 'local' }]);
  });

  it('takes the first answer, and notifies the others', async () => {
    const id = await newSession();
    const [fast, slow] = [person(), person()];
    const session = await withResponder(id, fast.approve);
    await withResponder(id, slow.approve);
    const running = session.run(say);
    const [, { signal }] = await Promise.all([fast.asked, slow.asked]);
    const told = new Promise((resolve) => signal.addEventListener('abort', resolve));
    fast.answer({ allowed: false, reason: 'not today' });
    expect((await running).error?.message).toContain('not today');
    await told;
    const { events } = await session.eventPage();
    const { id: approval } = Object(events.find(({ type }) => type === 'permission_requested'));
    const late = await server.call(`POST /v1/sessions/${id}/permissions/${approval}`, { body: { decision: 'allow' } });
    expect(late).toMatchObject({
      status: 409,
      json: { error: { code: 'ALREADY_RESOLVED', details: { outcome: 'denied', by: 'local', reason: 'not today' } } },
    });
    expect(await answersIn(session)).toMatchObject([{ outcome: 'denied', reason: 'not today' }]);
  });

  it('is refused if all responders abstain or disconnect', async () => {
    const id = await newSession();
    const session = await withResponder(id, async () => undefined);
    expect((await session.run(say)).error?.message).toContain('nobody can be asked');
    const { approve, asked } = person();
    const other = await withResponder(id, approve);
    const running = session.run(say);
    await asked;
    await other.close();
    expect((await running).error?.message).toContain('nobody can be asked');
  });

  it('is refused if nobody answers in time, or the code no longer waits', async () => {
    const session = await withResponder(await newSession({ inputTimeoutMs: 100 }), person().approve);
    expect((await session.run(say)).error?.message).toContain('nobody answered within 0.1 s');
    const { approve, asked } = person();
    const patient = await withResponder(await newSession(), approve);
    const running = patient.run(say);
    const { signal } = await asked;
    const told = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await patient.interrupt();
    expect((await running).status).toBe('interrupted');
    await told;
    expect(await answersIn(patient)).toMatchObject([{ outcome: 'cancelled' }]);
  });

  it('asks nobody about a request that is too long to read', async () => {
    const { approve } = person();
    const session = await withResponder(await newSession(), approve);
    const { error } = await session.run('tools.say("x" * 100_000)');
    expect(error?.message).toContain('too long to show');
  });

  it('runs if the caller approves with the call, which kernel code cannot do', async () => {
    const session = await withResponder(await newSession());
    expect(await session.tools.call('say', {}, { positional: ['hi'], approved: true })).toBe('hi\n');
    await expect(session.tools.call('say', {}, { positional: ['hi'] })).rejects.toMatchObject({
      code: 'APPROVAL_REFUSED',
    });
    const { status } = await session.run('tools.say("hi", approved=True)');
    expect(status).toBe('error');
  });

  it('asks the responders of a fork for a call in the fork', async () => {
    const parent = person();
    const session = await withResponder(await newSession(), parent.approve);
    await session.run('x = 1');
    const forked = await session.fork({ agentKey: `approvals fork ${made++}` });
    expect((await forked.run(say)).error?.message).toContain('nobody can be asked');
    const responding = await withResponder(forked.id, async () => true);
    expect(await responding.run(say)).toMatchObject({ value: 'hi' });
  });

  it('can be answered only in its own session', async () => {
    const [id, other] = [await newSession(), await newSession()];
    const { approve, asked, answer } = person();
    const session = await withResponder(id, approve);
    const running = session.run(say);
    await asked;
    const { events } = await session.eventPage();
    const { id: approval } = Object(events.find(({ type }) => type === 'permission_requested'));
    const elsewhere = await server.call(`POST /v1/sessions/${other}/permissions/${approval}`, {
      body: { decision: 'allow' },
    });
    expect(elsewhere).toMatchObject({ status: 404, json: { error: { code: 'NOT_FOUND' } } });
    answer(false);
    expect(await running).toMatchObject({ status: 'error' });
  });

  it('cannot be answered with `view` alone', async () => {
    const id = await newSession({ shares: [{ role: 'viewer', right: 'view' }] });
    const token = await server.user('looker', 'viewer');
    const answer = `POST /v1/sessions/${id}/permissions/prm_0000000000000000`;
    expect(await server.call(answer, { token, body: { decision: 'allow' } })).toMatchObject({ status: 403 });
    const { connect } = await import('../../../src/client/index.ts');
    await using client = await connect({ url: server.url, token });
    await expect(client.session(id, { approve: async () => true })).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });
});
