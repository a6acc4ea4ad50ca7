/**
 * All rows of the table.
 *
 * What is no attempt of a user with an effect to look for, or takes a server of its own, is attacked by other suites:
 * - How long one user stops the event loop, with the limit of 50 ms: test/server/stalls. `rows.ts` has large states
 *   (WebSocket from the beginning, conversations, lists of kernels and sessions, filters that match nothing, the sweep,
 *   long queries), `values.test.ts` values (lone surrogates, integers, dicts, MIME types), `namespaces.test.ts` artifacts
 *   and skills. The rows here notice a stop of more than 1.5 s.
 * - The limits themselves: test/contract/executor/values.ts (items, digits, MIME types of a value),
 *   test/faults/kernel/host-memory.test.ts (bytes that a kernel makes the server hold), test/server/sessions/quotas.test.ts
 *   (sessions, storage).
 * - Machines and processes that fail by no code of a user: test/faults/server and test/hosts/root/server-*.test.ts.
 *   `endings` has logs that cannot be written, second signals and SIGUSR1, `processes` stopped processes and few open files,
 *   `files` a database that is deleted, moved or empty, `server-disk` disks that are full, broken or read-only, and `/ready`
 *   with them. What code can cause of it is in `faults.ts` here.
 * - What a provider sends to the real programs of agents, and what the workspace holds for them: test/agents.
 */

import { accessRows } from './access.ts';
import { agentRows } from './agent-workspace.ts';
import { faultRows } from './faults.ts';
import { fileFloodRows } from './file-floods.ts';
import { fileShapeRows } from './file-shapes.ts';
import { fileRows } from './files.ts';
import { gatewayRows } from './gateway.ts';
import { httpRows } from './http.ts';
import { kernelRows } from './kernel.ts';
import { kernelMessageRows } from './kernel-messages.ts';
import { limitRows } from './limits.ts';
import { namespaceRows } from './namespaces.ts';
import { proxyRows } from './proxy.ts';
import type { Row } from './row.ts';
import { websocketRows } from './websocket.ts';

export const rows: readonly Row[] = [
  ...kernelRows,
  ...limitRows,
  ...accessRows,
  ...kernelMessageRows,
  ...httpRows,
  ...websocketRows,
  ...gatewayRows,
  ...proxyRows,
  ...namespaceRows,
  ...agentRows,
  ...fileRows,
  ...fileShapeRows,
  ...fileFloodRows,
  ...faultRows,
];
