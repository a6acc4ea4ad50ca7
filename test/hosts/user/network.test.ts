/** The network of a sandbox that is a list of hosts, on an ordinary user's host. */

import { describe, test } from 'vitest';
import { attacksOnAList, hosts, reachesItsHosts } from '../../faults/kernel/network.ts';
import { openSession } from '../../support/kernels/session.ts';

describe('a list of hosts', () => {
  const ports = hosts();
  test('is all that code reaches', () => reachesItsHosts(openSession, ports));
  attacksOnAList(openSession, ports);
});
