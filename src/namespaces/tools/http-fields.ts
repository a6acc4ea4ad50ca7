/** The parts of YAML that say how to reach something over HTTP. */

import { z } from 'zod';
import { CredentialName } from './fields.ts';
import { hasControl } from './text.ts';

/** As in RFC 9110: no spaces, no colon, no control characters. */
const HeaderName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be the name of a header');
const HeaderValue = z.string().refine((text) => !hasControl(text), 'holds a control character');
export const Headers = z.record(HeaderName, HeaderValue);

export const HttpUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return (
    url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '' && url.hash === ''
  );
}, 'must be an http or https URL without a user, a password and a fragment');

export const Auth = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('bearer'), credential: CredentialName }),
  z.strictObject({ type: z.literal('basic'), username: HeaderValue.default(''), credential: CredentialName }),
  z.strictObject({ type: z.literal('header'), name: HeaderName, credential: CredentialName }),
  z.strictObject({ type: z.literal('query'), name: z.string().min(1), credential: CredentialName }),
]);
export type Auth = z.infer<typeof Auth>;
