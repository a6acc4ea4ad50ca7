/** Clients that read along in a session, each by another way: what they are told, as it came. */

import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { TestServer } from './server.ts';
import { ndjson, sse } from './streams.ts';

export interface Told {
  readonly seq: number;
  readonly type: string;
}

type Follow = (server: TestServer, session: string, isLast: (event: Told) => boolean) => Promise<Told[]>;

/** Resolves with a reader once that is connected: all from the first event on, to the last. */
export type Follower = (...where: Parameters<Follow>) => Promise<{ readonly seen: Promise<Told[]> }>;

const isEvent = (frame: object): frame is Told => 'seq' in frame;

export const overSocket = async (
  server: Pick<TestServer, 'url' | 'token'>,
  session: string,
  isLast: (event: Told) => boolean,
): Promise<{ readonly seen: Promise<Told[]> }> => {
  const url = `${server.url.replace('http', 'ws')}/v1/sessions/${session}/ws?after=0`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${server.token}` } });
  const events: Told[] = [];
  const seen = new Promise<Told[]>((resolve, reject) => {
    socket.on('message', (data) => {
      const frame: object = JSON.parse(String(data));
      if (!isEvent(frame)) return;
      events.push(frame);
      if (!isLast(frame)) return;
      resolve(events);
      socket.terminate();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`it was closed after ${events.length} events`)));
  });
  seen.catch(() => {}); // told to whoever waits
  await once(socket, 'open');
  return { seen };
};

const streamed =
  (accept: string, read: (response: Response, visit: (event: Told) => Promise<unknown>) => Promise<Told[]>): Follower =>
  async (server, session, isLast) => {
    const response = await server.fetch(`GET /v1/sessions/${session}/events?after=0`, { headers: { accept } });
    const seen = read(response, async (event) => !isLast(event));
    seen.catch(() => {}); // told to whoever waits
    return { seen };
  };

export const overLines: Follower = streamed('application/x-ndjson', ndjson);

export const overSse: Follower = streamed('text/event-stream', async (response, visit) => {
  const told = (data: object) => data as Told;
  const sent = await sse(response, ({ data }) => visit(told(data)));
  for (const { id, data } of sent) if (id !== String(data.seq)) throw new Error(`${id} is not ${data.seq}`);
  return sent.map(({ data }) => told(data));
});
