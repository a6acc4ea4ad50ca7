/** The order of the files of a run: those that take longest first, so that no worker is left alone with one at the end. */

import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Twenty seconds or more on two cores, the longest first. The others follow by their size, as vitest has them. */
const LONGEST = [
  'test/contract/container.test.ts',
  'test/contract/state.test.ts',
  'test/contract/in-process.test.ts',
  'test/matrix/container-file.test.ts',
  'test/matrix/container-redis.test.ts',
  'test/contract/namespaces.test.ts',
  'test/matrix/in-process-file.test.ts',
  'test/matrix/in-process-redis.test.ts',
  'test/contract/deps.test.ts',
  'test/faults/state.test.ts',
  'test/daemon/agents.test.ts',
  'test/agents/claude-sandbox.test.ts',
  'test/agents/lying-provider.test.ts',
  'test/contract/subprocess.test.ts',
  'test/e2e/cli.test.ts',
  'test/faults/in-process.test.ts',
  'test/e2e/namespaces-cli.test.ts',
  'test/faults/protocol.test.ts',
  'test/faults/container.test.ts',
  'test/e2e/executors-cli.test.ts',
  'test/daemon/kills.test.ts',
  'test/e2e/chat.test.ts',
  'test/matrix/subprocess-redis.test.ts',
  'test/matrix/subprocess-file.test.ts',
  'test/faults/escape.test.ts',
  'test/contract/image.test.ts',
  'test/e2e/mcp-server.test.ts',
  'test/e2e/state-cli.test.ts',
  'test/contract/ways.test.ts',
  'test/daemon/executors.test.ts',
  'test/agents/claude-docker.test.ts',
  'test/agents/secrets.test.ts',
  'test/agents/hostile-folders.test.ts',
  'test/e2e/readme.test.ts',
  'test/faults/layers.test.ts',
  'test/e2e/python-units.test.ts',
  'test/e2e/mcp.test.ts',
  'test/user/state.test.ts',
  'test/user/deps.test.ts',
  'test/user/escape.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((one, other) => rank(one) - rank(other));
  }
}

function rank({ moduleId }: TestSpecification): number {
  const place = LONGEST.findIndex((file) => moduleId.endsWith(`/${file}`));
  return place < 0 ? LONGEST.length : place;
}
