/** The network of a container that is a list of hosts. */

import { describe, test } from 'vitest';
import { openContainer } from '../support/container.ts';
import { canRunDocker } from '../support/docker.ts';
import { attacksOnAList, hosts, reachesItsHosts, useOfAList } from '../support/network.ts';

describe.skipIf(!canRunDocker)('with an engine', () => {
  const ports = hosts();
  test('code reaches the hosts of its list, and nothing else', () => reachesItsHosts(openContainer, ports));
  useOfAList(openContainer, ports);
  attacksOnAList(openContainer, ports);
});
