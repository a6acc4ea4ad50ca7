/** All rows of the table. */

import { fileRows } from './files.ts';
import { gatewayRows } from './gateway.ts';
import { httpRows } from './http.ts';
import { kernelRows } from './kernel.ts';
import type { Row } from './row.ts';
import { speechRows } from './speech.ts';
import { websocketRows } from './websocket.ts';

export const rows: readonly Row[] = [...kernelRows, ...speechRows, ...httpRows, ...websocketRows, ...gatewayRows, ...fileRows];
