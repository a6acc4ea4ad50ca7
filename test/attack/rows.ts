/** All rows of the table. */

import { accessRows } from './access.ts';
import { agentRows } from './agent-workspace.ts';
import { fileFloodRows } from './file-floods.ts';
import { fileShapeRows } from './file-shapes.ts';
import { fileRows } from './files.ts';
import { gatewayRows } from './gateway.ts';
import { httpRows } from './http.ts';
import { kernelRows } from './kernel.ts';
import { limitRows } from './limits.ts';
import { namespaceRows } from './namespaces.ts';
import { proxyRows } from './proxy.ts';
import type { Row } from './row.ts';
import { speechRows } from './speech.ts';
import { websocketRows } from './websocket.ts';

export const rows: readonly Row[] = [
  ...kernelRows,
  ...limitRows,
  ...accessRows,
  ...speechRows,
  ...httpRows,
  ...websocketRows,
  ...gatewayRows,
  ...proxyRows,
  ...namespaceRows,
  ...agentRows,
  ...fileRows,
  ...fileShapeRows,
  ...fileFloodRows,
];
