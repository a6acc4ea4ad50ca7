/** Every route of a server's own document, tried by everybody who might: what each gets is what the document says. */

import { randomBytes } from 'node:crypto';
import type { OpenApiDocument, Operation } from '../../../src/server/http/openapi.ts';

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

export async function tryRoutesByRole(url: string, adminToken: string): Promise<Tried> {
  const ask = async (what: string, token: string | null, body?: unknown) => {
    const [method = 'GET', path = '/'] = what.split(' ');
    const over = new AbortController();
    const response = await fetch(new URL(path, url), {
      ...{ method, redirect: 'manual', signal: over.signal },
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // Some answers never end.
    const isJson = response.headers.get('content-type') === 'application/json';
    const json: unknown = isJson ? await response.json() : {};
    over.abort();
    return { status: response.status, json: Object(json) };
  };
  const made = randomBytes(4).toString('hex');
  const user = async (name: string, role: string, more: object = {}): Promise<string> => {
    await ask('POST /v1/users', adminToken, { name: `${name}-${made}`, role });
    const { json } = await ask('POST /v1/tokens', adminToken, { name: 'roles', user: `${name}-${made}`, ...more });
    return String(json.token);
  };
  const owner = await user('owner', 'member');
  const sharedWith = rights.map((right) => ({ user: `member-${right}-${made}`, right }));
  const everyone: Who[] = [
    { name: 'nobody', token: null },
    { name: 'an expired token', token: await user('late', 'member', { expiresInMs: 1 }) },
    { name: 'an agent’s session token', token: `cst_${'a'.repeat(16)}_${'A'.repeat(43)}` },
    { name: 'a viewer without a share', token: await user('viewer', 'viewer'), role: 'viewer' },
    { name: 'a viewer with all rights', token: await user('onlooker', 'viewer'), role: 'viewer', right: 'view' },
    { name: 'a member without a share', token: await user('member', 'member'), role: 'member' },
  ];
  for (const right of rights) {
    const token = await user(`member-${right}`, 'member');
    everyone.push({ name: `a member who may ${right}`, token, role: 'member', right });
  }
  // What a share gives is bounded by the role: a viewer who may manage may still only look.
  const shares = [...sharedWith, { user: `onlooker-${made}`, right: 'manage' }];
  const { json: session } = await ask('POST /v1/sessions', owner, { agentKey: `roles ${made}`, shares });
  const { json: document } = await ask('GET /openapi.json', adminToken);
  const routes = Object.entries((document as OpenApiDocument).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, ...operation })),
  );
  const wrong: string[] = [];
  let calls = 0;
  for (const { method, path, description, security } of routes) {
    const what = `${method} ${path}`;
    const real = path.replace('{id}', String(session.id)).replaceAll(/\{\w+\}/g, 'some-name');
    for (const who of everyone) {
      const expected = expectedOf({ description, security }, who);
      if (expected === 'let in' && SPARED.has(what)) continue;
      const body = method === 'get' || method === 'delete' ? undefined : {};
      const { status, json } = await ask(`${method.toUpperCase()} ${real}`, who.token, body);
      calls++;
      const given = outcomeOf(status, json);
      const fits = given === expected || (given === 'forbidden' && expected === 'let in' && MORE.has(what));
      if (!fits) wrong.push(`${who.name}: ${what} (${description}) gave ${status} ${given}, expected ${expected}`);
    }
  }
  await ask(`DELETE /v1/sessions/${session.id}`, owner);
  return { calls, wrong };
}

type Outcome = 'let in' | 'closed' | 'forbidden' | 'hidden';

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
  // Wrong tokens without end are slowed down.
  if (error?.code === 'RATE_LIMITED' && status === 429) return 'closed';
  if (error?.code === 'FORBIDDEN' && !('privilege' in (error.details ?? {}))) return 'forbidden';
  if (error?.code === 'NOT_FOUND' && error.message?.includes('There is no session')) return 'hidden';
  return 'let in';
}
