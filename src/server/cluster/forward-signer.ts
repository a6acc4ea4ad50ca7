/** The signed mark of a forwarded request: which server sent it, and for which client. Valid for that request alone. */

import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';

export const FORWARD_HEADER = 'x-cella-hop';

const ForwardMark = z.strictObject({
  /** The server that forwarded it. */
  from: z.string().max(200),
  /** The address of the client. */
  client: z.string().max(100),
});
export type ForwardMark = z.infer<typeof ForwardMark>;

/** The only request that the mark is valid for. */
interface MarkedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

const HEADER = /^([A-Za-z0-9_-]{1,600})\.([A-Za-z0-9_-]{43})$/;

export class ForwardSigner {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  sign(request: MarkedRequest, hop: ForwardMark): string {
    const text = Buffer.from(JSON.stringify(hop)).toString('base64url');
    return `${text}.${this.#mac(request, text).toString('base64url')}`;
  }

  /** Undefined if there is no valid mark. */
  read(request: MarkedRequest, header: string | undefined): ForwardMark | undefined {
    const [, text, mac] = HEADER.exec(header ?? '') ?? [];
    if (text === undefined || mac === undefined) return undefined;
    if (!timingSafeEqual(this.#mac(request, text), Buffer.from(mac, 'base64url'))) return undefined;
    return ForwardMark.parse(JSON.parse(Buffer.from(text, 'base64url').toString()));
  }

  #mac({ method, path, authorization = '', cookie = '' }: MarkedRequest, text: string): Buffer {
    const signed = JSON.stringify([text, method, path, authorization, cookie]);
    return createHmac('sha256', this.#secret).update(signed).digest();
  }
}
