/** Sessions of a server for the suites that are written for any session: through the client, by one of its ways. */

import { afterEach } from 'vitest';
import { type Client, connect } from '../../../src/client/index.ts';
import type { SessionOptions } from '../../../src/index.ts';
import type { Open } from '../kernels/session.ts';
import { TestServer } from './server.ts';

const clients: Client[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

let server: Promise<TestServer> | undefined;
let made = 0;

/** One server for a file; what the suites do in a loop is not held up. */
export function sharedServer(): Promise<TestServer> {
  server ??= TestServer.start({ rates: { perSecond: 100_000, burst: 100_000 } });
  return server;
}

export type Way = 'url' | 'socket';

export async function connectTo({ url, token, facts }: TestServer, way: Way): Promise<Client> {
  const client = await connect(way === 'url' ? { url, token } : { socket: facts.socketPath });
  clients.push(client);
  return client;
}

/** What the suites ask of a session is all of SessionApi; of the rest of the class they know nothing. */
export function openThrough(way: Way): Open {
  const open = async ({ dataDir, ...settings }: SessionOptions = {}) => {
    const client = await connectTo(await sharedServer(), way);
    return await client.open({ agentKey: `client ${made++}`, ...(settings as Record<string, never>) });
  };
  return open as unknown as Open;
}
