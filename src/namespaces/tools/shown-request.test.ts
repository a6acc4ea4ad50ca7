import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HttpRequest, shownRequest } from './http-tool.ts';
import type { Auth } from './tool-definition.ts';

type Auths = Auth | undefined;

const headerName = fc.constantFrom('content-type', 'accept', 'x-a', 'x-b', 'as');
/** Texts that look like the parts that they are put beside. */
const tricky = fc.constantFrom(
  'application/json',
  '',
  'a',
  '"',
  '\\',
  ' -H "x-a: a"',
  ' as TOKEN',
  '{"a":1}',
  'x-b: a',
);
const headers = fc.dictionary(headerName, fc.oneof(tricky, fc.string({ maxLength: 8 })), { maxKeys: 3 });
const body = fc.option(
  fc.oneof(
    fc.json({ maxDepth: 1 }),
    tricky.map((text) => JSON.stringify(text)),
  ),
  { nil: undefined },
);
const url = fc
  .record({ path: fc.oneof(tricky, fc.string({ maxLength: 8 })), query: fc.option(tricky, { nil: undefined }) })
  .map(({ path, query }) => {
    const made = new URL(`https://api.example/${encodeURIComponent(path)}`);
    if (query !== undefined) made.searchParams.append('q', query);
    return made;
  });
const method = fc.constantFrom('GET', 'POST');
const request = fc
  .record({ method, url, headers, body })
  // As requests are prepared: a body has a type.
  .map((made): HttpRequest => {
    const typed: Record<string, string> = made.body === undefined ? {} : { 'content-type': 'application/json' };
    return { ...made, headers: { ...typed, ...made.headers } };
  });
const credential = fc.constantFrom('TOKEN', 'OTHER');
const auth: fc.Arbitrary<Auths> = fc.option(
  fc.oneof(
    fc.record({ type: fc.constant('bearer' as const), credential }),
    fc.record({ type: fc.constant('basic' as const), username: tricky, credential }),
    fc.record({ type: fc.constant('header' as const), name: headerName, credential }),
    fc.record({ type: fc.constant('query' as const), name: fc.constantFrom('key', 'key") -H "x', 'a b'), credential }),
  ),
  { nil: undefined },
);

/** What is sent, in a form that is the same for the same requests alone. */
function sent({ method, url, headers, body }: HttpRequest, as: Auths): string {
  const sorted = Object.entries(headers).toSorted(([one], [other]) => (one < other ? -1 : 1));
  const { type, credential, ...more } = as ?? { type: 'none', credential: '' };
  return JSON.stringify([method, url.href, sorted, body ?? null, type, credential, more]);
}

describe('the display of a request', () => {
  it('is never the same for two requests that differ', () => {
    // Requests from few parts are often alike: all of a run are compared with one another.
    const seen = new Map<string, string>();
    fc.assert(
      fc.property(request, auth, (made, as) => {
        const [text, whole] = [shownRequest(made, as), sent(made, as)];
        expect(seen.get(text) ?? whole).toBe(whole);
        seen.set(text, whole);
      }),
      { numRuns: 20_000 },
    );
  });
});
