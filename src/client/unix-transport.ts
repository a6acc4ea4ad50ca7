/** Reaches a local server through the Unix socket in its data folder. Only for Node; loaded on first use. */

import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { WebSocket } from 'ws';
import { aborted, type Socket, serverUnreachable, type Transport, type TransportRequest } from './transport.ts';

export class UnixTransport implements Transport {
  readonly address: string;
  readonly allowsManyConnections = true;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(socketPath: string) {
    this.address = socketPath;
  }

  async request(wanted: TransportRequest): Promise<Response> {
    try {
      return toResponse(await this.#send(wanted));
    } catch (error) {
      throw wanted.signal?.aborted ? aborted() : serverUnreachable(this.address, error);
    }
  }

  /** Needs no token: access to the socket file is the authentication. */
  socket(path: string): Socket {
    return new WebSocket(`ws+unix:${this.address}:${path}`, { perMessageDeflate: false });
  }

  close(): void {
    this.#agent.destroy();
  }

  #send({ method, path, headers, body, signal }: TransportRequest): Promise<IncomingMessage> {
    const answer = Promise.withResolvers<IncomingMessage>();
    const request = httpRequest({
      socketPath: this.address,
      agent: this.#agent,
      method,
      path,
      headers: { host: 'localhost', ...headers, ...lengthOf(body) },
      signal,
    });
    request.once('response', answer.resolve);
    request.once('error', answer.reject);
    if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) request.end(body);
    // A server that refuses a request may answer before it has read the whole body.
    else pipeline(Readable.from(body), request).catch(answer.reject);
    return answer.promise;
  }
}

function lengthOf(body: TransportRequest['body']): Record<string, string> {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return {};
  return { 'content-length': String(Buffer.byteLength(body)) };
}

function toResponse(answer: IncomingMessage): Response {
  const { statusCode: status = 500, headersDistinct } = answer;
  const headers = new Headers();
  for (const [name, values] of Object.entries(headersDistinct))
    for (const value of values ?? []) headers.append(name, value);
  if (status === 204 || status === 304) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  return new Response(chunksOf(answer), { status, headers });
}

/** Reads a chunk only when the consumer asks for one. The reader gets the error of a broken connection. */
function chunksOf(answer: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks = answer[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      async pull(controller) {
        const { value, done } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(new Uint8Array(value));
      },
      cancel() {
        answer.destroy();
      },
    },
    { highWaterMark: 0 },
  );
}
