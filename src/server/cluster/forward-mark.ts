/**
 * The mark on a request that one server has passed on to another: where the client is, and that it came this way. It is
 * signed with a secret that only the servers of one storage have, and lets nobody in: who asks is found out again from
 * what the client sent. A mark that a client makes up is no mark.
 */

import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';

export const FORWARD_HEADER = 'x-cella-hop';

const ForwardMark = z.strictObject({
  /** The server that has passed it on. */
  from: z.string().max(200),
  /** Where the client is. */
  client: z.string().max(100),
});
export type ForwardMark = z.infer<typeof ForwardMark>;

/** What the mark is good for: this request of this client, and no other. */
export interface MarkedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

const HEADER = /^([A-Za-z0-9_-]{1,600})\.([A-Za-z0-9_-]{43})$/;

export class Hops {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  sign(request: MarkedRequest, hop: ForwardMark): string {
    const text = Buffer.from(JSON.stringify(hop)).toString('base64url');
    return `${text}.${this.#mac(request, text).toString('base64url')}`;
  }

  /** Undefined where there is none that is good. */
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
