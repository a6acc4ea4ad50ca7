/** The network of a container that is a list of hosts. */

import { describe, test } from 'vitest';
import { canRunDocker } from '../../support/docker/docker.ts';
import { openContainer } from '../../support/kernels/container.ts';
import { attacksOnAList, hosts, reachesItsHosts, useOfAList } from '../kernel/network.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  const ports = hosts();
  test('code reaches only the hosts on its list', () => reachesItsHosts(openContainer, ports));
  useOfAList(openContainer, ports);
  attacksOnAList(openContainer, ports);
});
