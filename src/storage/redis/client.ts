/** How the official client is set up: no queue while there is no connection, bytes as bytes, and no end to reconnecting. */

import { createClient, RESP_TYPES } from '@redis/client';
import type { Address } from './address.ts';

const CONNECT_MS = 800;
const RECONNECT_MS = 100;

export type Client = ReturnType<typeof newClient>;

export function newClient({ url }: Address) {
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
