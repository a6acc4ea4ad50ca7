/** Nothing that a user sends or holds stops the event loop of a server for long: moderate sizes of each. */

import { stallSuite } from './rows.ts';

stallSuite({
  events: 60_000,
  audit: 60_000,
  sessions: 4_000,
  openSessions: 2_000,
  tokens: 3_000,
  kernels: 40,
  skills: 2_000,
  artifacts: 2_000,
  files: 30_000,
  outputs: 60_000,
});
