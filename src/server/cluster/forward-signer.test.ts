/** The mark of a forwarded request. */

import { expect, it } from 'vitest';
import { ForwardSigner } from './forward-signer.ts';

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
