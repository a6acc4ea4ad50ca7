/** The same as moderate.test.ts on a server that has grown large. */

import { stallSuite } from './rows.ts';

stallSuite({
  events: 1_000_000,
  audit: 1_000_000,
  sessions: 10_000,
  openSessions: 10_000,
  tokens: 10_000,
  kernels: 500,
  // Ten fewer than may be: some are made.
  skills: 9_990,
  artifacts: 10_000,
  files: 100_000,
  outputs: 60_000,
});
