/** Answers whose body is a text that is there as a whole: they are sent as they are, and not through a stream. */

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { type JsonText, jsonBytes } from '../json-pieces.ts';

const texts = new WeakMap<Response, JsonText>();

/** Only for what `sendText` sends: the text is not its body, which as a stream would cost more than all else about it. */
export function textResponse(text: JsonText, init: ResponseInit): Response {
  const response = new Response(null, init);
  texts.set(response, text);
  return response;
}

/** False where the body is something else: nothing was sent then. */
export function sendText(response: Response, outgoing: ServerResponse): boolean {
  const text = texts.get(response);
  if (text === undefined) return false;
  const headers: OutgoingHttpHeaders = { 'content-length': jsonBytes(text) };
  for (const [name, value] of response.headers) headers[name] = value;
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) headers['set-cookie'] = cookies;
  outgoing.writeHead(response.status, headers);
  if (typeof text === 'string') outgoing.end(text);
  else {
    for (const piece of text) outgoing.write(piece);
    outgoing.end();
  }
  return true;
}
