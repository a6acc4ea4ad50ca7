/** Every route of a server's own document, tried by everybody who might: what each gets is what the document says. */

import { readdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import type { OpenApiDocument, Operation } from '../../../src/server/http/openapi.ts';
import {
  agentServer,
  hostileRunner,
  KEY,
  namedPrograms,
  prompt,
  setKey,
  until,
} from '../../support/servers/agent-server.ts';
import type { TestServer } from '../../support/servers/server.ts';

const rights = ['view', 'use', 'manage'] as const;
type Right = (typeof rights)[number];
const roleScopes = { viewer: ['view', 'tokens'], member: ['view', 'use', 'manage', 'tokens'] };

interface Who {
  readonly name: string;
  readonly token: string | null;
  /** Undefined if the token is not good. */
  readonly role?: keyof typeof roleScopes;
  /** On the session that is asked for. */
  readonly right?: Right | undefined;
}

/** What else they would do is done: the session would be gone for the others. */
const SPARED = new Set(['delete /v1/sessions/{id}']);
/** Beside the right, these need more: to be the owner, or the user. */
const MORE = new Set(['post /v1/sessions/{id}/confirm', 'get /v1/users/{user}', 'delete /v1/users/{user}/logins']);

export interface Tried {
  readonly calls: number;
  /** Those that came out otherwise than the document says. */
  readonly wrong: readonly string[];
}

/** Nobody is slowed down here: a route that only says "later" would be open to whoever comes later. */
const UNLIMITED = { perSecond: 1_000_000, burst: 1_000_000 };

export async function tryRoutesByRole(): Promise<Tried> {
  await using server = await agentServer({
    ...{ modelUrl: 'http://127.0.0.1:9', runner: await hostileRunner(), programs: await namedPrograms() },
    ...{ rates: UNLIMITED, credentialRates: UNLIMITED },
  });
  const ask = async (what: string, token: string | null, body?: unknown) => {
    const over = new AbortController();
    const response = await server.fetch(what, { token, body, signal: over.signal });
    // Some answers never end.
    const isJson = response.headers.get('content-type') === 'application/json';
    const json: unknown = isJson ? await response.json() : {};
    over.abort();
    return { status: response.status, json: Object(json) };
  };
  const owner = await server.user('owner', 'member');
  // What a share gives is bounded by the role: a viewer who may manage may still only look.
  const shares = [
    ...rights.map((right) => ({ user: `member-${right}`, right })),
    { user: 'onlooker', right: 'manage' },
  ];
  const everyone: Who[] = [
    { name: 'nobody', token: null },
    { name: 'an expired token', token: await server.user('late', 'member', { expiresInMs: 1 }) },
    { name: 'a session token that is forged', token: `cst_${'a'.repeat(16)}_${'A'.repeat(43)}` },
    { name: 'a viewer without a share', token: await server.user('viewer', 'viewer'), role: 'viewer' },
    { name: 'a viewer with all rights', token: await server.user('onlooker', 'viewer'), role: 'viewer', right: 'view' },
    { name: 'a member without a share', token: await server.user('member', 'member'), role: 'member' },
  ];
  for (const right of rights) {
    const token = await server.user(`member-${right}`, 'member');
    everyone.push({ name: `a member who may ${right}`, token, role: 'member', right });
  }
  const { id } = await server.session({ agentKey: 'roles', permissionTimeoutMs: 0, shares }, owner);
  const agent = await agentToken(server, id, owner);
  const { json: document } = await ask('GET /openapi.json', server.token);
  const routes = Object.entries((document as OpenApiDocument).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, ...operation })),
  );
  const wrong: string[] = [];
  let calls = 0;
  const tryAll = async (who: Who) => {
    for (const { method, path, description, security } of routes) {
      const what = `${method} ${path}`;
      const expected = expectedOf({ description, security }, who);
      if (expected === 'let in' && SPARED.has(what)) continue;
      const real = path.replace('{id}', id).replaceAll(/\{\w+\}/g, 'some-name');
      const body = method === 'get' || method === 'delete' ? undefined : {};
      const { status, json } = await ask(`${method.toUpperCase()} ${real}`, who.token, body);
      calls++;
      const given = outcomeOf(status, json);
      const fits = given === expected || (given === 'forbidden' && expected === 'let in' && MORE.has(what));
      if (!fits) wrong.push(`${who.name}: ${what} (${description}) gave ${status} ${given}, expected ${expected}`);
    }
  };
  // Its turn waits for a permission meanwhile. The others come later, because they may end the turn.
  await tryAll({ name: 'a session token of a running turn', token: agent.token });
  if ([401, 'nobody listens'].includes(await agent.tryToken())) wrong.push('its turn has ended meanwhile');
  for (const who of everyone) await tryAll(who);
  return { calls, wrong };
}

/** The session token of a running turn. `tryToken` returns the status that a request with it gets. */
async function agentToken(server: TestServer, id: string, owner: string) {
  await setKey(server, KEY, owner);
  await prompt(server, id, 'shown ls', { wait: false, token: owner });
  const events = await until(server, id, ({ type }) => type === 'permission_requested');
  const claim = events.flatMap((event) => (event.type === 'item_completed' && event.item === 'c' ? [event.text] : []));
  const { session_token: token }: { session_token: string } = JSON.parse(claim[0] ?? '');
  const gates = join(server.facts.dataDir, 'gates');
  const socketPath = join(gates, readdirSync(gates)[0] ?? '', 'socket');
  const tryToken = async () => {
    const { promise, resolve } = Promise.withResolvers<number | string>();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = request({ socketPath, method: 'POST', path: '/mcp', headers, agent: false }, (response) => {
      resolve(response.resume().statusCode ?? 0);
    });
    sent.on('error', () => resolve('nobody listens')).end('{}');
    return await promise;
  };
  return { token, tryToken };
}

type Outcome = 'let in' | 'closed' | 'forbidden' | 'hidden' | 'slowed down' | 'broken';

function expectedOf({ description, security }: Pick<Operation, 'description' | 'security'>, who: Who): Outcome {
  if (description === 'Needs no token.') return 'let in';
  if (who.role === undefined) return 'closed';
  const [, needed] = /^Needs the right to (view|use|manage) the session\b/.exec(description) ?? [];
  if (needed === undefined && !/^(Needs a token|For administrators)\b/.test(description)) {
    throw new Error(`the document says of whom it is for: ${description}`);
  }
  if (needed !== undefined && who.right === undefined) return 'hidden';
  if (needed !== undefined && rights.indexOf(who.right as Right) < rights.indexOf(needed as Right)) return 'forbidden';
  const scopes = security.flatMap(({ token }) => (Array.isArray(token) ? token : []));
  for (const scope of scopes)
    if (!description.includes(`\`${scope}\``)) throw new Error(`${description}: and ${scope}?`);
  return scopes.every((scope) => roleScopes[who.role ?? 'viewer'].includes(scope)) ? 'let in' : 'forbidden';
}

/** What was let in may fail for any other reason: nothing that is asked here makes sense. */
function outcomeOf(
  status: number,
  { error }: { error?: { code?: string; message?: string; details?: object } },
): Outcome {
  if (error?.code === 'UNAUTHENTICATED' && !error.message?.includes('code')) return 'closed';
  if (error?.code === 'RATE_LIMITED') return 'slowed down';
  if (status >= 500) return 'broken';
  if (error?.code === 'FORBIDDEN' && !('privilege' in (error.details ?? {}))) return 'forbidden';
  if (error?.code === 'NOT_FOUND' && error.message?.includes('There is no session')) return 'hidden';
  return 'let in';
}
