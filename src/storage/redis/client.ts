/** How the official client is set up: no queue while there is no connection, bytes as bytes, and no end to reconnecting. */

import type * as Redis from '@redis/client';
import type { Address } from './address.ts';

const CONNECT_MS = 800;
const RECONNECT_MS = 100;

export type Client = ReturnType<typeof newClient>;

/** It takes a while to load, and most processes never need it. */
export async function loadRedis(): Promise<typeof Redis> {
  return await import('@redis/client');
}

export function newClient({ createClient, RESP_TYPES }: typeof Redis, { url }: Address) {
  return createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: () => RECONNECT_MS },
  });
}
