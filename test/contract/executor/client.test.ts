/** What every session does, through the client of a server. */

import { describe } from 'vitest';
import { openThrough } from '../../support/servers/client.ts';
import { executionContract } from './execution.ts';
import { inputContract } from './input.ts';
import { outputContract } from './output.ts';
import { introspectionContract } from './session-lifecycle.ts';
import { deathContract, interruptContract, queueContract, timeoutContract } from './stopping.ts';
import { valuesContract } from './values.ts';

describe('a session of a server by its address', () => {
  const open = openThrough('url');
  executionContract(open);
  valuesContract(open);
  outputContract(open);
  inputContract(open);
  introspectionContract(open);
});

describe('a session of a server by its socket', () => {
  const open = openThrough('socket');
  queueContract(open);
  interruptContract(open);
  timeoutContract(open);
  deathContract(open);
});
