/** What agents ask for: who decides, what a rule allows, what is there after a restart, and that each gets its own answer. */

import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { checkMode } from '../../../src/environments/environment.ts';
import type { PermissionRequest } from '../../../src/protocol/permission.ts';
import type { PermissionAsker } from '../../../src/server/permissions/session-permissions.ts';
import type { ServerSession } from '../../../src/server/sessions/server-session.ts';
import { Child } from '../../faults/storage/child-processes.ts';
import {
  logged,
  newPlace,
  next,
  openServerSession,
  openSessionManager,
  useRedis,
} from '../sessions/session-managers.ts';

useRedis();
const TURN = 'trn_0000000000000001';
const OTHER_TURN = 'trn_0000000000000002';
const never = new AbortController().signal;

interface RequestFields {
  readonly command?: string;
  readonly turn?: string;
  readonly user?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** As an agent that wants to run a command. */
function requestOf({
  command = 'git status',
  turn = TURN,
  user = 'ann~000000000000',
  signal = never,
  ...more
}: RequestFields = {}) {
  return { user, turn, tool: 'Bash', summary: command, input: { command }, signal, ...more };
}

const request = ({ permissions }: ServerSession, asked: PermissionRequest & PermissionAsker) =>
  permissions.request(asked, asked);

/** Asks, and gives the id that others see. */
async function ask(serverSession: ServerSession, fields: RequestFields = {}) {
  const { last } = await serverSession.position();
  const decided = request(serverSession, requestOf(fields));
  decided.catch(() => {}); // looked at by the test
  const { id } = await next(serverSession, 'permission_requested', last);
  return { id, decided };
}

const requests = async (serverSession: ServerSession) =>
  (await logged(serverSession)).filter(({ type }) => type === 'permission_requested');
const resolutions = async (serverSession: ServerSession) =>
  (await logged(serverSession)).filter(({ type }) => type === 'permission_resolved');

describe.each(['file', 'redis'] as const)('a permission in %s storage', (kind) => {
  test('is stored before anybody sees it, and records the authenticated user who decides', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const { id, decided } = await ask(serverSession);
    const waiting = { id, state: 'pending', tool: 'Bash', summary: 'git status', turn: TURN, exactly: 'git status' };
    expect(await serverSession.permissions.list('pending')).toMatchObject([waiting]);
    const told = await serverSession.permissions.decide('bob~000000000000', id, { decision: 'allow' });
    expect(told).toMatchObject({ state: 'resolved', resolution: { outcome: 'allowed', by: 'bob~000000000000' } });
    expect(await decided).toMatchObject({ id, outcome: 'allowed', scope: 'once', by: 'bob~000000000000' });
    expect(await serverSession.permissions.list('pending')).toEqual([]);
    expect(await serverSession.permissions.get(id)).toEqual(told);
    expect(await resolutions(serverSession)).toMatchObject([
      { id, turn: TURN, outcome: 'allowed', by: 'bob~000000000000' },
    ]);
  });

  test('has one answer if two users decide at once, and the other learns who was first', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const { id, decided } = await ask(serverSession);
    const outcomes = await Promise.allSettled([
      serverSession.permissions.decide('ann~000000000000', id, { decision: 'deny', reason: 'not today' }),
      serverSession.permissions.decide('bob~000000000000', id, { decision: 'allow', scope: 'always' }),
    ]);
    expect(outcomes).toMatchObject([
      { status: 'fulfilled' },
      { reason: { code: 'ALREADY_RESOLVED', details: { outcome: 'denied', by: 'ann~000000000000' } } },
    ]);
    expect(await decided).toMatchObject({ outcome: 'denied', reason: 'not today' });
    expect(await resolutions(serverSession)).toHaveLength(1);
    // The slower one has left no rule behind.
    const { decided: again, id: second } = await ask(serverSession, { user: 'bob~000000000000' });
    await serverSession.permissions.decide('bob~000000000000', second, { decision: 'deny' });
    expect(await again).toMatchObject({ outcome: 'denied' });
  });

  test('gets its own answer among many pending ones', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind));
    const commands = Array.from({ length: 10 }, (_, index) => `make ${index}`);
    const all = commands.map((command) => request(serverSession, requestOf({ command })));
    let seen = 0;
    for await (const item of serverSession.events()) if (item.type === 'permission_requested' && ++seen === 10) break;
    for (const { id, summary } of (await serverSession.permissions.list('pending')).toReversed()) {
      await serverSession.permissions.decide('local', id, { decision: 'deny', reason: `no ${summary}` });
    }
    expect((await Promise.all(all)).map(({ reason }) => reason)).toEqual(commands.map((command) => `no ${command}`));
  });

  test('times out, a late decision is refused, and asking again works', async () => {
    const { serverSession } = await openServerSession(await newPlace(kind), { permissionTimeoutMs: 30 });
    const { id, decided } = await ask(serverSession);
    expect(await decided).toMatchObject({ outcome: 'timed_out', reason: 'nobody answered within 0.03 s' });
    const late = serverSession.permissions.decide('local', id, { decision: 'allow' });
    await expect(late).rejects.toMatchObject({ code: 'ALREADY_RESOLVED', details: { outcome: 'timed_out' } });
    const again = await ask(serverSession, { timeoutMs: 0 });
    expect(again.id).not.toBe(id);
    await serverSession.permissions.decide('local', again.id, { decision: 'allow' });
    expect(await again.decided).toMatchObject({ outcome: 'allowed' });
  });

  test('can be allowed for the session, or always for the user who decided, by exactly its text', async () => {
    const place = await newPlace(kind);
    const { manager, serverSession, end } = await openServerSession(place);
    const allow = async (fields: RequestFields, scope: 'session' | 'always', pattern?: string) => {
      const { id, decided } = await ask(serverSession, fields);
      const decision = { decision: 'allow', scope, ...(pattern === undefined ? {} : { pattern }) } as const;
      await serverSession.permissions.decide('ann~000000000000', id, decision);
      expect(await decided).toMatchObject({ outcome: 'allowed', scope });
    };
    await allow({ command: 'git status' }, 'always');
    await allow({ command: 'make one' }, 'session', 'make *');
    await end();
    // Rules outlive the server, and session rules stay in theirs.
    const second = await openSessionManager(place);
    const again = await second.manager.open(serverSession.id);
    expect(await request(again, requestOf())).toMatchObject({ outcome: 'allowed', scope: 'always' });
    expect(await request(again, requestOf({ command: 'make two' }))).toMatchObject({ scope: 'session' });
    const { session } = await second.manager.create('local', { agentKey: 'other' });
    const other = await second.manager.open(session.id);
    expect(await request(other, requestOf())).toMatchObject({ outcome: 'allowed' });
    for (const fields of [{ command: 'make two' }, { user: 'bob~000000000000' }, { command: 'git status; rm -rf /' }]) {
      const { id, decided } = await ask(other, fields);
      await other.permissions.cancelOf(TURN);
      expect(await decided).toMatchObject({ id, outcome: 'cancelled' });
    }
    expect(manager).not.toBe(second.manager);
    const rules = second.manager.rulesOf('ann~000000000000');
    const [rule] = await rules.list();
    expect(rule).toMatchObject({ tool: 'Bash', pattern: 'git status', by: 'ann~000000000000' });
    await rules.delete(rule?.id ?? '');
    const { id } = await ask(other);
    await other.permissions.decide('local', id, { decision: 'deny' });
  });

  test('ends with its session: no record and no rule of it is left', async () => {
    const { manager, serverSession, storage } = await openServerSession(await newPlace(kind));
    const first = await ask(serverSession);
    await serverSession.permissions.decide('local', first.id, { decision: 'allow', scope: 'session' });
    const { decided } = await ask(serverSession, { command: 'make' });
    await manager.delete(serverSession.id);
    expect(await decided.catch(() => ({ outcome: 'cancelled' }))).toMatchObject({ outcome: 'cancelled' });
    for (const collection of ['permissions', 'permission-rules']) {
      expect((await storage.documents.list(collection)).documents).toEqual([]);
    }
  });
});

describe('a permission', () => {
  test('does not prevent a stop: it ends with its turn, and others stay pending', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const mine = await ask(serverSession);
    const other = await ask(serverSession, { turn: OTHER_TURN });
    await serverSession.permissions.cancelOf(TURN);
    expect(await mine.decided).toMatchObject({ outcome: 'cancelled', reason: 'the turn was stopped' });
    expect((await serverSession.permissions.list('pending')).map(({ id }) => id)).toEqual([other.id]);
    const gone = new AbortController();
    const third = await ask(serverSession, { command: 'make', signal: gone.signal });
    gone.abort();
    expect(await third.decided).toMatchObject({ outcome: 'cancelled' });
  });

  test('that was pending when the server was killed stays pending: it is decided, and the decision is used once by the same request', async () => {
    const place = await newPlace('file');
    const storage = await place.open();
    const config = storage.toBootstrapConfig();
    await storage.close();
    const program = fileURLToPath(new URL('permission-child.ts', import.meta.url));
    const child = new Child('', JSON.stringify({ dataDir: place.dataDir, config }), '', [], program);
    const { sessions: [session = '', id = ''] = [] } = Object(await child.next());
    await child.kill();
    const first = await openSessionManager(place);
    const serverSession = await first.manager.open(session);
    expect(await serverSession.permissions.list('pending')).toMatchObject([{ id, turn: TURN, summary: 'make' }]);
    expect(await requests(serverSession)).toMatchObject([{ id }]);
    const told = await serverSession.permissions.decide('bob~000000000000', id, {
      decision: 'deny',
      reason: 'not now',
    });
    expect(told.resolution).toMatchObject({ outcome: 'denied', by: 'bob~000000000000' });
    expect(await resolutions(serverSession)).toMatchObject([{ id, outcome: 'denied', by: 'bob~000000000000' }]);
    // Nobody has taken it when the next server ends, too.
    await first.end();
    const again = await (await openSessionManager(place)).manager.open(session);
    expect(await resolutions(again)).toHaveLength(1);
    const make = { user: 'local', command: 'make', turn: OTHER_TURN };
    // What differs in anything is something else.
    for (const fields of [
      { ...make, user: 'ann~000000000000' },
      { ...make, command: 'make all' },
    ]) {
      const other = await ask(again, fields);
      expect(other.id).not.toBe(id);
      await again.permissions.cancelOf(OTHER_TURN);
    }
    const { last } = await again.position();
    expect(await request(again, requestOf(make))).toMatchObject({ id, outcome: 'denied', reason: 'not now' });
    expect(await logged(again, last)).toMatchObject([
      { type: 'agent_notice', turn: OTHER_TURN, text: expect.stringContaining(`${id} (Bash: make) was denied by bob`) },
    ]);
    const anew = await ask(again, make);
    expect(anew.id).not.toBe(id);
  });

  test('that was pending when the server ended is joined by the same request, which gets the decision', async () => {
    const place = await newPlace('file');
    const { serverSession, end } = await openServerSession(place);
    const before = await ask(serverSession);
    await end();
    expect(await before.decided).toMatchObject({ id: before.id, outcome: 'cancelled' });
    const second = await openSessionManager(place);
    const again = await second.manager.open(serverSession.id);
    expect(await again.permissions.list('pending')).toMatchObject([{ id: before.id, turn: TURN }]);
    expect(await resolutions(again)).toEqual([]);
    const [joined, other] = [await ask(again, { turn: OTHER_TURN }), await ask(again, { turn: OTHER_TURN })];
    expect(joined.id).toBe(before.id);
    // Two that ask at once are two requests.
    expect(other.id).not.toBe(before.id);
    expect(await again.permissions.get(before.id)).toMatchObject({ state: 'pending', turn: OTHER_TURN });
    // It is one of the turn that waits for it, also when that server ends.
    await second.end();
    const third = await (await openSessionManager(place)).manager.open(serverSession.id);
    const [one, two] = await third.permissions.list('pending');
    expect([one?.id, two?.id]).toEqual([before.id, other.id]);
    const last = await ask(third);
    await third.permissions.decide('local', last.id, { decision: 'allow', scope: 'session' });
    expect(await last.decided).toMatchObject({ id: before.id, outcome: 'allowed' });
    expect(await third.permissions.rules.list()).toMatchObject([{ tool: 'Bash', pattern: 'git status' }]);
    // Whoever stops the agent does not want it any more.
    await third.turns.stop();
    expect(await third.permissions.get(other.id)).toMatchObject({ resolution: { outcome: 'cancelled' } });
  });

  test('keeps its deadline after a restart, and a decision that was unused for that long expires', async () => {
    const place = await newPlace('file');
    const { serverSession, storage, end } = await openServerSession(place);
    const [late, old] = [await ask(serverSession), await ask(serverSession, { command: 'make' })];
    await serverSession.permissions.decide('local', old.id, { decision: 'allow' });
    const edit = async (id: string, change: (record: ReturnType<typeof Object>) => object) => {
      const record = await storage.documents.get('permissions', `${serverSession.id}/${id}`);
      await storage.documents.put('permissions', `${serverSession.id}/${id}`, Object(change(Object(record?.value))));
    };
    // As they are where the server was away for a day.
    await edit(late.id, ({ info, ...record }) => ({ ...record, info: { ...info, expiresAt: info.requestedAt + 1 } }));
    await edit(old.id, ({ info, ...record }) => {
      const resolution = { ...info.resolution, at: info.resolution.at - 86_400_000 };
      return { ...record, info: { ...info, resolution }, delivered: false };
    });
    await end();
    const again = await (await openSessionManager(place)).manager.open(serverSession.id);
    expect(await again.permissions.list('pending')).toEqual([]);
    expect((await resolutions(again)).at(-1)).toMatchObject({ id: late.id, outcome: 'timed_out' });
    const decision = again.permissions.decide('local', late.id, { decision: 'allow' });
    await expect(decision).rejects.toMatchObject({ code: 'ALREADY_RESOLVED', details: { outcome: 'timed_out' } });
    expect((await ask(again)).id).not.toBe(late.id);
    expect((await ask(again, { command: 'make' })).id).not.toBe(old.id);
  });

  test('that was decided but not delivered is delivered after a restart, and used once', async () => {
    const place = await newPlace('file');
    const { serverSession, storage, end } = await openServerSession(place);
    const { id, decided } = await ask(serverSession);
    await serverSession.permissions.decide('local', id, { decision: 'allow' });
    await decided;
    // As it is between the decision and the log.
    const record = await storage.documents.get('permissions', `${serverSession.id}/${id}`);
    await storage.documents.put('permissions', `${serverSession.id}/${id}`, {
      ...Object(record?.value),
      logged: false,
      delivered: false,
    });
    await end();
    const { manager } = await openSessionManager(place);
    const again = await manager.open(serverSession.id);
    expect((await resolutions(again)).at(-1)).toMatchObject({ id, outcome: 'allowed', by: 'local' });
    expect(await request(again, requestOf())).toMatchObject({ id, outcome: 'allowed' });
    expect((await ask(again)).id).not.toBe(id);
  });

  test('creates no rule that would not allow it, or that nobody could read, and stays pending', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const { id, decided } = await ask(serverSession, { command: 'git status\nrm -rf /' });
    for (const pattern of [undefined, 'git *', 'git status', 'git status\n*']) {
      const decision = { decision: 'allow', scope: 'always', ...(pattern === undefined ? {} : { pattern }) } as const;
      await expect(serverSession.permissions.decide('local', id, decision)).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
      });
    }
    await serverSession.permissions.decide('local', id, { decision: 'allow' });
    expect(await decided).toMatchObject({ outcome: 'allowed', scope: 'once' });
  });

  test('does not use the agent’s suggestion in place of what a person allowed', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const { last } = await serverSession.position();
    const decided = request(serverSession, { ...requestOf(), pattern: '**' });
    const { id } = await next(serverSession, 'permission_requested', last);
    await serverSession.permissions.decide('local', id, { decision: 'allow', scope: 'session' });
    await decided;
    expect(await serverSession.permissions.rules.list()).toMatchObject([{ tool: 'Bash', pattern: 'git status' }]);
  });

  test('can be a question, which is answered with a text and never by a rule', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const question = { text: 'Which colour?', options: [{ label: 'red' }, { label: 'blue' }] };
    const answered = request(serverSession, { ...requestOf(), tool: 'AskUserQuestion', question });
    const { id, options } = await next(serverSession, 'question');
    expect(options).toEqual(question.options);
    await serverSession.permissions.decide('local', id, { decision: 'allow', text: 'blue' });
    expect(await answered).toMatchObject({ outcome: 'allowed', text: 'blue' });
  });

  test('is denied if it is too long to read, or if too many are pending: a flood affects only its agent', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const long = await request(serverSession, requestOf({ command: `echo ${'x'.repeat(100_000)}` }));
    expect(long).toMatchObject({ outcome: 'denied', reason: expect.stringContaining('too long to show') });
    const many = Array.from({ length: 130 }, (_, index) =>
      request(serverSession, requestOf({ command: `make ${index}` })),
    );
    const denied: unknown[] = [];
    for (const one of many) void one.then((outcome) => denied.push(outcome));
    // By then, the others wait for a decision.
    await expect.poll(() => denied.length).toBe(30);
    expect(denied).toEqual(
      Array(30).fill(expect.objectContaining({ outcome: 'denied', reason: expect.stringContaining('too many') })),
    );
    await serverSession.permissions.cancelOf(TURN);
    const outcomes = (await Promise.all(many)).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === 'cancelled')).toHaveLength(100);
  });

  test('shows the beginning of a file’s new content', async () => {
    const { serverSession } = await openServerSession(await newPlace('file'));
    const input = { file_path: '/agent/workspace/a.txt', content: 'x'.repeat(200_000) };
    const decided = request(serverSession, { ...requestOf(), tool: 'Write', summary: 'a.txt', input });
    const { id, input: shown } = await next(serverSession, 'permission_requested');
    expect(Object(shown).content).toMatch(/x… \(200000 characters\)$/);
    await serverSession.permissions.decide('local', id, { decision: 'deny' });
    expect(await decided).toMatchObject({ outcome: 'denied' });
  });

  test('can be bypassed only in isolated environments', () => {
    expect(() => checkMode('bypass', { kind: 'local', isolated: false })).toThrow(
      expect.objectContaining({ code: 'BYPASS_REFUSED' }),
    );
    checkMode('bypass', { kind: 'docker', isolated: true });
    checkMode('auto-edit', { kind: 'local', isolated: false });
  });
});
